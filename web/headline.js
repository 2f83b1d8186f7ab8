// The numbers at the top, each a way to where they come from; and how the time divides.

const headline = (() => {
  function figures(report, go) {
    const found = report.report ?? {};
    const overview = found.overview ?? {};
    const { timeline, summary } = report;
    const { calls, gpu: works } = report.watched;
    const wall = overview.wall_ns ?? timeline.end_ns;
    // Errors that only answer a question are none.
    const failed = (found.failures ?? []).filter((row) => !row.expected).reduce((sum, row) => sum + row.calls, 0);
    const list = [];
    const add = (label, value, note, target, bad) => list.push({ label, value, note, target, bad });
    const working = found.working;
    const step = working?.step;
    // A step of the loop first: the run as a whole is mostly start-up where it is short.
    if (step) {
      const exact = found.idle?.basis === 'gpu_times' ? '' : '≤ ';
      add('Step', format.time(step.p50_ns), `p99 ${format.time(step.p99_ns)}, ${format.plural(step.seen, 'step', 'steps')}`, 'timeline');
      add('GPU busy in a step', `${exact}${format.share(working.busy_share)}`, exact ? 'estimated from launches' : `waiting for launches ${format.share(working.length_ns > 0 ? working.waiting_for_launches_ns / working.length_ns : 0)}`, 'idle');
    }
    add('Wall time', format.time(wall), `${format.plural(overview.threads ?? timeline.lanes.filter((lane) => lane.kind === 'thread').length, 'thread', 'threads')}`, 'timeline');
    const gpu = found.gpu?.all;
    if (gpu?.operations > 0) add('GPU busy', format.share(gpu.share), `${format.time(gpu.busy_ns)} in ${format.count(gpu.operations)} operations`, 'idle');
    else if (found.idle?.busy_ns > 0) add('GPU busy', `≤ ${format.share(found.idle.busy_share)}`, 'estimated from launches', 'idle');
    else add('GPU busy', '–', works ? 'no GPU work in this trace' : 'not traced', 'idle');
    if (!calls) add('CUDA API calls', '–', 'not traced', 'tables');
    else if (overview.api_calls != null) add('CUDA API calls', format.count(overview.api_calls), failed > 0 ? `${format.count(failed)} failed` : 'none failed', 'tables', failed > 0);
    if (calls && overview.launches != null) add('Kernel launches', format.count(overview.launches), wall > 0 ? `${format.count((overview.launches / wall) * 1e9)} a second` : '', 'tables:kernels');
    const device = (found.memory?.spaces ?? []).find((space) => space.space === 'device') ?? found.memory?.spaces?.[0];
    if (device) add('Memory peak', format.bytes(device.peak_bytes), `${device.space ?? 'all'} memory, at ${format.time(go.relative(device.peak_at_ns))}`, 'memory');
    else if (calls && overview.allocated_bytes != null) add('Allocated', format.bytes(overview.allocated_bytes), format.plural(overview.allocations, 'allocation', 'allocations'), 'memory');
    if (calls && overview.transferred_bytes != null) add('Transferred', format.bytes(overview.transferred_bytes), format.plural(overview.transfers, 'transfer', 'transfers'), 'tables:transfers');
    if (overview.ioctls > 0) add('ioctls', format.count(overview.ioctls), `${format.time(overview.ioctl_ns)} in them`, 'tables');
    const lost = Math.max(overview.lost ?? 0, summary?.lost ?? 0, timeline.lost_total);
    add('Events lost', format.count(lost), `of ${format.count((summary?.events ?? overview.events ?? 0) + lost)}`, 'environment', lost > 0);
    return list;
  }

  function create(report, go) {
    return figures(report, go).map(({ label, value, note, target, bad }) =>
      el('button', { type: 'button', class: 'figure', onclick: () => go.section(target) }, el('span', { class: 'label' }, label), el('span', { class: `value${bad ? ' bad' : ''}` }, value), el('span', { class: 'note', title: note }, note)),
    );
  }

  // Host time by category, as one bar: self times, so that nothing is counted twice.
  function balance(report, go) {
    const rows = report.report?.categories?.categories ?? [];
    const total = rows.reduce((sum, row) => sum + row.self_ns, 0);
    if (total === 0) return null;
    const parts = [...rows].filter((row) => row.self_ns > 0).sort((a, b) => b.self_ns - a.self_ns);
    return [
      el('div', { class: 'stack', role: 'img', 'aria-label': `Host time in traced calls: ${parts.map((row) => `${row.category} ${format.share(row.self_ns / total)}`).join(', ')}` },
        parts.map((row) => el('i', { title: `${row.category} ${format.time(row.self_ns)}`, style: { width: `${(row.self_ns / total) * 100}%`, background: `var(--cat-${row.category})` } }))),
      el('div', { class: 'stack-labels' }, el('span', {}, `${format.time(total)} of host time in traced calls:`), parts.slice(0, 8).map((row) => el('button', { class: 'link', onclick: () => go.category(row.category) }, tables.swatch(row.category), `${row.category} ${format.share(row.self_ns / total)}${row.bottleneck ? ' · bottleneck' : ''}`))),
    ];
  }

  return { create, balance };
})();
