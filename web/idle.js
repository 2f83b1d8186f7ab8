// When the GPU had nothing to do, and what the host did meanwhile.

const idleView = (() => {
  const HOST = [
    ['synchronising_ns', 'synchronising', 'sync'],
    ['allocating_ns', 'allocating', 'memory'],
    ['copying_ns', 'copying', 'transfer'],
    ['launching_ns', 'launching', 'kernel'],
    ['loading_ns', 'loading code', 'module'],
    ['other_api_ns', 'other API calls', 'query'],
    ['system_calls_ns', 'system calls', 'context'],
    ['python_ns', 'Python', 'stream'],
    ['untraced_ns', 'nothing traced', 'other'],
  ];

  const parts = (host) =>
    HOST.map(([key, label, category]) => ({ label, category, time: host?.[key] ?? 0 }))
      .filter((part) => part.time > 0)
      .sort((a, b) => b.time - a.time);

  function did(host) {
    const list = parts(host);
    const total = list.reduce((sum, part) => sum + part.time, 0);
    return list.slice(0, 3).map((part) => `${part.label} ${format.share(part.time / total)}`).join(', ') || '–';
  }

  function create(report, go, view) {
    const idle = report.report?.idle;
    if (!idle) return el('p', { class: 'quiet' }, 'This trace contains no GPU work.');
    if (!report.watched.gpu) return el('p', { class: 'quiet' }, 'GPU idle time is unknown, because neither CUDA calls nor GPU times were traced. Record with ', el('code', {}, '--method=auto'), ', or add preload to the list.');
    const gaps = idle.gaps ?? [];
    const stretch = (gap) => ({ from: go.relative(gap.start_ns), to: go.relative(gap.end_ns) });
    view.scene.marks = gaps.map((gap) => ({ ...stretch(gap), label: `GPU idle ${format.time(gap.length_ns)}` }));
    const measured = idle.basis === 'gpu_times';
    const total = parts(idle.host).reduce((sum, part) => sum + part.time, 0);
    const kernel = (work) => work?.short_name ?? work?.name;
    const table = tables.create({
      caption: 'The longest gaps. Click one to see it in the timeline.',
      rows: gaps,
      page: 10,
      sort: 1,
      search: (gap) => `${gap.before?.name ?? ''} ${gap.after?.name ?? ''}`,
      open: (gap) => go.stretch(stretch(gap).from, stretch(gap).to),
      columns: [
        { title: 'from', key: (gap) => gap.start_ns, show: (gap) => format.moment(go.relative(gap.start_ns), 1e3) },
        { title: 'length', key: (gap) => gap.length_ns, number: true, show: (gap) => tables.bar(format.time(gap.length_ns), gap.length_ns / (idle.idle_ns || 1)) },
        { title: 'what the host did', key: (gap) => did(gap.host) },
        { title: 'after', key: (gap) => kernel(gap.before) ?? 'the start', name: true, tip: (gap) => gap.before?.name },
        { title: 'before', key: (gap) => kernel(gap.after) ?? 'the end', name: true, tip: (gap) => gap.after?.name },
      ],
    });
    return [
      el(
        'p',
        {},
        `${measured ? 'Measured on the GPU' : 'Estimated from launches, because the trace has no GPU times (idle time is at least this)'}: busy `,
        el('strong', {}, format.share(idle.busy_share)),
        ` of ${format.time(idle.wall_ns)}, idle ${format.time(idle.idle_ns)}, in ${format.plural(idle.gap_count, 'gap', 'gaps')} between work, longest ${format.time(idle.longest_gap_ns)}. Another workload could have used `,
        el('strong', {}, format.time(idle.opportunity_ns)),
        ` of it, in gaps of ${format.time(idle.opportunity_min_gap_ns)} or longer.`,
      ),
      total > 0 && bar(idle.host, total),
      el('div', { class: 'columns', style: { marginTop: '10px' } }, el('div', { style: { flex: '3 1 560px' } }, table.node), histogram(idle)),
    ];
  }

  function bar(host, total) {
    const list = parts(host);
    const words = list.map((part) => `${part.label} ${format.share(part.time / total)}`);
    return [
      el('div', { class: 'stack', role: 'img', 'aria-label': `What the host did while the GPU was idle: ${words.join(', ')}` }, list.map((part) => el('i', { title: `${part.label} ${format.time(part.time)}`, style: { width: `${(part.time / total) * 100}%`, background: `var(--cat-${part.category})` } }))),
      el('div', { class: 'stack-labels' }, el('span', {}, 'While it was idle, the host was'), list.map((part) => el('span', {}, tables.swatch(part.category), `${part.label} ${format.share(part.time / total)}`))),
    ];
  }

  function histogram(idle) {
    const buckets = idle.histogram ?? [];
    if (!buckets.some((bucket) => bucket.count > 0)) return null;
    const bars = buckets.map((bucket) => {
      const label = bucket.below_ns == null ? 'longer' : `< ${format.time(bucket.below_ns)}`;
      return { value: bucket.total_ns, label, tip: `${label}: ${format.plural(bucket.count, 'gap', 'gaps')}, ${format.time(bucket.total_ns)}` };
    });
    return el('figure', { class: 'panel', style: { margin: 0 } }, el('h3', {}, 'Idle time by gap length'), charts.histogram({ bars, color: 'var(--accent)', title: `Idle time by gap length: ${bars.filter((entry) => entry.value > 0).map((entry) => entry.tip).join('; ')}`, width: 420, height: 150 }));
  }

  return { create };
})();
