// The tables of functions, kernels, operations, threads, streams and what else the report counts.

const tabs = (() => {
  const time = (title, key, hint) => ({ title, key, show: (row) => format.time(key(row)), number: true, hint });
  const count = (title, key, hint) => ({ title, key, show: (row) => format.count(key(row)), number: true, hint });
  const text = (title, key) => ({ title, key });
  const named = (title, key) => ({ title, key, name: true, mark: (row) => row.category && tables.swatch(row.category) });

  // A time beside a bar: the longest bar is the table's greatest.
  const barred = (title, rows, key) => {
    const most = Math.max(1, ...(rows ?? []).map(key));
    return { ...time(title, key), show: (row) => tables.bar(format.time(key(row)), key(row) / most) };
  };

  // PyTorch's own terms: lines that wait, who has memory, what torch.compile fused. operators.js has its operators.
  function framework(found, go, add) {
    const bytes = (title, key) => ({ title, key, show: (row) => format.bytes(key(row)), number: true });
    add('waits', 'Lines that wait', found.operators?.waits, {
      caption: 'Lines of Python that wait for the GPU.',
      sort: 3,
      search: (row) => `${row.line} ${row.operator ?? ''} ${row.module ?? ''}`,
      open: (row) => go.operation(row.max_op_id, row.function),
      columns: [
        text('line', (row) => row.line),
        text('in', (row) => row.operator ?? row.function),
        count('waits', (row) => row.count),
        barred('time', found.operators?.waits, (row) => row.total_ns),
        time('longest', (row) => row.max_ns),
      ],
    });
    add('tensors', 'Tensors', found.tensors?.owners, {
      caption: `GPU memory of PyTorch’s tensors: who held it at the peak of ${format.bytes(found.tensors?.peak_bytes ?? 0)}.`,
      sort: 3,
      search: (row) => `${row.module ?? ''} ${row.operator ?? ''} ${row.line ?? ''}`,
      columns: [
        text('module', (row) => row.module ?? ''),
        text('operator', (row) => row.operator ?? ''),
        text('line', (row) => row.line ?? ''),
        bytes('at the peak', (row) => row.at_peak_bytes),
        count('allocations', (row) => row.allocations),
        bytes('allocated', (row) => row.allocated_bytes),
        bytes('at the end', (row) => row.live_bytes),
      ],
    });
    add('compiled', 'Compiled kernels', found.compiled, {
      caption: 'Kernels that torch.compile generated, and the operators that each one replaces.',
      sort: 3,
      search: (row) => `${row.name} ${row.operators.join(' ')}`,
      columns: [
        text('kernel', (row) => row.name),
        text('replaces', (row) => row.operators.join(', ')),
        count('count', (row) => row.executions),
        barred('GPU time', found.compiled, (row) => row.total_ns),
      ],
    });
  }

  // Only what the report holds; each opens its place in the timeline.
  function all(report, go) {
    const found = report.report ?? {};
    const wall = found.overview?.wall_ns || report.timeline.end_ns || 1;
    const list = [];
    const add = (id, title, rows, options) => {
      if (Array.isArray(rows) && (rows.length > 0 || ['functions', 'kernels', 'longest'].includes(id))) list.push({ id, title, rows, ...options });
    };
    add('functions', 'Functions', found.functions?.functions, {
      caption: 'Host calls by name. Total time includes nested calls of other functions, self time does not.',
      sort: 3,
      search: (row) => `${row.name} ${row.category} ${row.layer}`,
      open: (row) => go.operation(row.max_op_id, row.name),
      columns: [
        named('function', (row) => row.name),
        text('layer', (row) => row.layer),
        count('calls', (row) => row.calls),
        barred('total', found.functions?.functions, (row) => row.total_ns),
        time('self', (row) => row.self_ns),
        time('average', (row) => row.average_ns),
        time('p50', (row) => row.p50_ns),
        time('p99', (row) => row.p99_ns),
        time('max', (row) => row.max_ns),
        time('first call', (row) => row.first_ns, 'How long the first call took'),
        { ...count('failed', (row) => row.failed), show: (row) => failures(row, go) },
      ],
    });
    const mostGpu = Math.max(1, ...(found.functions?.kernels ?? []).map((row) => row.total_ns));
    add('kernels', 'Kernels', found.functions?.kernels, {
      caption: 'GPU work by name; instances of one template that do the same are combined (hover to see their full names). Executions may overlap, so their sum is not GPU busy time.',
      sort: 4,
      search: (row) => `${row.short_name} ${row.name} ${row.category} ${(row.variants ?? []).join(' ')}`,
      open: (row) => (row.executions > 0 ? go.operation(row.max_op_id, row.name) : go.kernel(row)),
      columns: [
        { ...named('kernel', (row) => row.short_name ?? row.name), tip: (row) => (row.variants ?? []).join('\n') },
        count('variants', (row) => row.variant_count),
        count('launches', (row) => row.launches),
        count('executions', (row) => row.executions),
        { ...time('GPU time', (row) => row.total_ns), show: (row) => tables.bar(row.executions ? format.time(row.total_ns) : '–', row.total_ns / mostGpu) },
        ...['average', 'p50', 'p99', 'max'].map((title) => ({
          ...time(title, (row) => row[`${title}_ns`]),
          show: (row) => (row.executions ? format.time(row[`${title}_ns`]) : '–'),
        })),
      ],
    });
    const put = (made) => made && list.push(made);
    put(launches.shapes(report, go));
    operators.all(report, go).forEach(put);
    put(stepsView.create(report, go));
    put(launches.requests(report, go));
    framework(found, go, add);
    const longest = [...(found.functions?.longest ?? []), ...(found.functions?.longest_gpu ?? [])];
    add('longest', 'Longest operations', found.functions ? longest : null, {
      caption: 'Single calls and single GPU operations.',
      sort: 1,
      search: (row) => `${row.short_name ?? ''} ${row.name} ${row.category} ${row.layer} ${row.op_id}`,
      open: (row) => go.operation(row.op_id, row.name, row),
      columns: [
        { ...named('operation', (row) => row.short_name ?? row.name), tip: (row) => (row.short_name ? row.name : null) },
        barred('duration', longest, (row) => row.duration_ns),
        time('self', (row) => row.self_ns),
        { title: 'start', key: (row) => row.start_ns, show: (row) => format.moment(go.relative(row.start_ns), 1e3), number: true },
        text('layer', (row) => row.layer),
        { title: 'thread', key: (row) => row.tid, number: true, show: (row) => (row.layer === 'gpu' ? 'GPU' : String(row.tid)) },
        { title: 'op_id', key: (row) => row.op_id, number: true, show: (row) => String(row.op_id) },
      ],
    });
    add('categories', 'Categories', found.categories?.categories, {
      caption: 'Host time by category. Busy: at least one thread was in such a call.',
      sort: 4,
      search: (row) => row.category,
      open: (row) => go.category(row.category),
      columns: [
        { ...named('category', (row) => row.category), show: (row) => row.category + (row.bottleneck ? ' · BOTTLENECK' : '') },
        count('calls', (row) => row.calls),
        time('total', (row) => row.total_ns),
        time('average', (row) => row.average_ns),
        { ...time('self', (row) => row.self_ns), show: (row) => tables.bar(format.time(row.self_ns), row.self_ns / wall) },
        time('busy', (row) => row.busy_ns),
        { title: 'busy share', key: (row) => row.share, show: (row) => format.share(row.share), number: true },
      ],
    });
    add('layers', 'Layers', found.categories?.layers, {
      caption: 'Host time by layer, from the program down to the driver.',
      sort: 3,
      search: (row) => row.layer,
      columns: [
        text('layer', (row) => row.layer),
        count('calls', (row) => row.calls),
        time('total', (row) => row.total_ns),
        { ...time('self', (row) => row.self_ns), show: (row) => tables.bar(format.time(row.self_ns), row.self_ns / wall) },
        time('busy', (row) => row.busy_ns),
        { title: 'busy share', key: (row) => row.share, show: (row) => format.share(row.share), number: true },
      ],
    });
    add('below', 'Below the API', found.correlation?.functions, {
      caption: 'Where calls spend their time (user space, system calls, the driver’s kernel modules), and the GPU work they start.',
      sort: 2,
      search: (row) => `${row.name} ${row.layer}`,
      open: (row) => go.operation(row.syscall_op_id, row.name),
      columns: [
        named('function', (row) => row.name),
        count('calls', (row) => row.calls),
        barred('total', found.correlation?.functions, (row) => row.total_ns),
        time('user space', (row) => row.user_ns),
        time('system calls', (row) => row.syscall_ns),
        count('number', (row) => row.syscalls, 'System calls'),
        time('kernel modules', (row) => row.kernel_ns),
        count('GPU operations', (row) => row.gpu_operations),
        time('GPU time', (row) => row.gpu_ns),
      ],
    });
    add('transfers', 'Transfers', found.transfers?.directions, {
      caption: 'Copies by direction. Bandwidth is shown only if the time of the copies themselves is known.',
      sort: 2,
      search: (row) => row.direction,
      columns: [
        text('direction', (row) => row.direction),
        count('copies', (row) => row.count),
        { title: 'bytes', key: (row) => row.bytes, show: (row) => format.bytes(row.bytes), number: true },
        { title: 'typical size', key: (row) => typical(row), show: (row) => format.bytes(typical(row)), number: true },
        time('in calls', (row) => row.call_ns),
        time('copying', (row) => row.busy_ns),
        { title: 'bandwidth', key: (row) => row.bytes_per_second, show: (row) => format.rate(row.bytes_per_second), number: true },
        { title: 'timed by', key: (row) => ({ gpu: 'GPU times', calls: 'blocking calls', nothing: '–' })[row.timed_by] ?? '–' },
        { title: 'host memory', key: (row) => (row.host ?? []).map((use) => `${use.memory} ${format.count(use.count)}`).join(', ') || '–' },
      ],
    });
    add('copy-places', 'Copies by place', found.transfers?.places, {
      caption: 'The call sites that copy most. Without stacks, call sites are distinguished by the size of their copies.',
      sort: 4,
      search: (row) => `${row.place?.function} ${(row.place?.stack ?? []).join(' ')}`,
      open: (row) => go.operation(row.op_id, row.place?.function),
      columns: [
        { title: 'call', key: (row) => row.place?.function ?? '', name: true, tip: (row) => (row.place?.stack ?? []).join('\n') || null },
        { title: 'size', key: (row) => row.place?.size_bytes, number: true, show: (row) => (row.place?.size_bytes == null ? '–' : format.bytes(row.place.size_bytes)), hint: 'Of one copy, if that tells call sites apart' },
        text('direction', (row) => row.direction),
        count('copies', (row) => row.count),
        { title: 'bytes', key: (row) => row.bytes, show: (row) => format.bytes(row.bytes), number: true },
        time('time in calls', (row) => row.copy_ns, 'Not counting calls that first waited for kernels'),
        found.transfers?.places?.some((row) => row.place?.stack?.length > 0) && { title: 'from', key: (row) => (row.place?.stack ?? [])[0] ?? '', name: true },
      ].filter(Boolean),
    });
    add('threads', 'Threads', report.timeline.lanes.filter((lane) => lane.kind === 'thread' && lane.spans > 0), {
      caption: 'Busy: inside a traced call, an operator or a range.',
      sort: 3,
      search: (row) => `${row.pid} ${row.tid}`,
      open: (row) => go.lane(row),
      columns: [
        { title: 'thread', key: (row) => row.tid, show: (row) => row.label ?? String(row.tid) },
        { title: 'process', key: (row) => row.pid, number: true, show: (row) => String(row.pid), tip: (row) => lanes.processName(row.pid, report.meta, report.summary?.processes) || null },
        count('calls', (row) => row.spans),
        ...laneTimes(report, wall),
        count('failed', (row) => row.failed),
      ],
    });
    add('streams', 'GPU streams', report.timeline.lanes.filter((lane) => lane.device != null && lane.kind !== 'probes'), {
      caption: 'Work with GPU times, by stream.',
      sort: 3,
      search: (row) => `${row.device} ${row.stream ?? ''} ${row.label ?? ''}`,
      open: (row) => go.lane(row),
      columns: [
        { title: 'stream', key: (row) => row.label ?? '', show: (row) => lanes.fullLabel(row) },
        { title: 'GPU', key: (row) => row.device, number: true, show: (row) => String(row.device) },
        count('operations', (row) => row.spans),
        ...laneTimes(report, wall),
      ],
    });
    add('blocks', 'Inside kernels', (found.blocks ?? []).flatMap((row) => row.multiprocessors.map((one) => ({ ...one, device: row.device, name: row.name }))), {
      caption: (found.blocks ?? []).map((row) => `${format.count(row.count)} ${row.name}s, recorded by probes inside kernels: at most ${format.count(row.most_at_once)} at once; durations: p50 ${format.time(row.p50_ns)}, p99 ${format.time(row.p99_ns)}, at most ${format.time(row.longest_ns)}.`).join(' '),
      sort: 2,
      search: (row) => `SM ${row.sm} ${row.device ?? ''} ${row.name}`,
      open: (row) => go.lane(report.timeline.lanes.find((lane) => lane.kind === 'probes' && lane.sm === row.sm && lane.device === (row.device ?? 0))),
      columns: [
        { title: 'multiprocessor', key: (row) => row.sm, show: (row) => `SM ${row.sm}` },
        { title: 'GPU', key: (row) => row.device ?? 0, number: true, show: (row) => String(row.device ?? '–') },
        { ...count('ran', (row) => row.count), show: (row) => `${format.count(row.count)} ${row.name}s` },
        { ...time('busy', (row) => row.busy_ns), show: (row) => tables.bar(format.time(row.busy_ns), row.busy_ns / wall) },
        time('sum', (row) => row.sum_ns, 'Sum of their times: more than busy if they overlap'),
        time('average', (row) => row.sum_ns / Math.max(row.count, 1)),
      ],
    });
    add('contexts', 'Contexts', found.contexts?.contexts, {
      caption: found.contexts ? `${format.plural(found.contexts.switches, 'switch', 'switches')} of a thread’s current context.` : '',
      sort: 2,
      search: (row) => `${row.pid} ${row.context}`,
      open: (row) => go.operation(row.created_op_id, null, { start_ns: row.first_used_ns, duration_ns: row.last_used_ns - row.first_used_ns }),
      columns: [
        { title: 'context', key: (row) => row.context, show: (row) => handle(row.context) },
        { title: 'process', key: (row) => row.pid, number: true, show: (row) => String(row.pid), tip: (row) => lanes.processName(row.pid, report.meta, report.summary?.processes) || null },
        count('calls', (row) => row.calls),
        count('threads', (row) => row.threads),
        { title: 'GPU', key: (row) => row.device ?? '–', number: true, show: (row) => String(row.device ?? '–') },
        { title: 'created', key: (row) => row.created_at_ns, number: true, show: (row) => (row.created_at_ns == null ? 'not seen' : format.time(go.relative(row.created_at_ns))) },
        { title: 'destroyed', key: (row) => row.destroyed_at_ns, number: true, show: (row) => (row.destroyed_at_ns == null ? 'not seen' : format.time(go.relative(row.destroyed_at_ns))) },
      ],
    });
    add('stream-calls', 'Calls by stream', found.categories?.streams, {
      caption: 'Host calls that name a stream, by that stream.',
      sort: 3,
      search: (row) => `${row.stream} ${row.pid}`,
      columns: [
        { title: 'stream', key: (row) => row.stream, show: (row) => handle(row.stream) },
        { title: 'process', key: (row) => row.pid, number: true, show: (row) => String(row.pid), tip: (row) => lanes.processName(row.pid, report.meta, report.summary?.processes) || null },
        count('calls', (row) => row.calls),
        time('time', (row) => row.total_ns),
        { title: 'mostly', key: (row) => (row.categories ?? [])[0]?.category ?? '' },
      ],
    });
    return list;
  }

  const handle = (value) => (value == null || value === 0 ? 'default' : value < 65536 ? String(value) : `0x${value.toString(16)}`);

  function laneTimes(report, wall) {
    return [
      { ...time('busy', (row) => row.busy), show: (row) => tables.bar(format.time(row.busy), row.busy / wall) },
      { title: 'share of wall', key: (row) => row.busy / wall, show: (row) => format.share(row.busy / wall), number: true },
      { title: 'mostly', key: (row) => mostly(report, row), show: (row) => [tables.swatch(mostly(report, row)), mostly(report, row)] },
      { ...time('longest', (row) => row.longest[0]), tip: (row) => report.timeline.short[row.longest[1]] },
      time('from', (row) => row.first),
      time('to', (row) => row.last),
    ];
  }

  // The size most copies have: the fullest bin's mean.
  function typical(row) {
    const bin = (row.sizes ?? []).reduce((best, next) => (next.count > (best?.count ?? 0) ? next : best), null);
    return bin ? Math.round(bin.bytes / bin.count) : 0;
  }

  function mostly(report, lane) {
    const most = lane.by_category.indexOf(Math.max(...lane.by_category));
    return report.timeline.categories[most];
  }

  function failures(row, go) {
    if (!row.failed) return '0';
    if (row.failed_op_id == null) return el('span', { class: 'bad' }, format.count(row.failed));
    return el('button', { class: 'link', title: 'The first one that failed', onclick: () => go.operation(row.failed_op_id, row.name) }, format.count(row.failed));
  }

  // What a search found, call by call.
  function matches(report, onmatch) {
    return {
      id: 'matches',
      title: 'Matches',
      rows: [],
      caption: 'What the search found, by time. Click one to see it in the timeline.',
      sort: 1,
      ascending: true,
      search: () => '',
      open: (row) => onmatch(row),
      columns: [
        named('name', (row) => row.name),
        { title: 'start', key: (row) => row.start, number: true, show: (row) => format.moment(row.start, 1e3) },
        time('duration', (row) => row.duration),
        { title: 'lane', key: (row) => row.lane, show: (row) => (report.timeline.lanes[row.lane] ? lanes.fullLabel(report.timeline.lanes[row.lane]) : '–') },
        { title: 'op_id', key: (row) => row.id, number: true, show: (row) => String(row.id) },
      ],
    };
  }

  // The tab list and its panels, as the pattern for tabs has it: arrows move between tabs.
  function create(report, go, container, list) {
    let onmatch = () => {};
    const made = [matches(report, (row) => onmatch(row)), ...all(report, go)].map((options) => ({ id: options.id, title: options.title, table: options.view ?? tables.create(options) }));
    const found = made[0];
    const number = (tab) => el('span', { class: 'quiet' }, format.count(tab.table.rows().length));
    const buttons = made.map((tab) =>
      el('button', { type: 'button', role: 'tab', id: `tab-${tab.id}`, 'aria-controls': `panel-${tab.id}`, onclick: () => choose(tab.id) }, tab.title, ' ', number(tab)),
    );
    const panels = made.map(({ id, table }) => el('div', { role: 'tabpanel', id: `panel-${id}`, 'aria-labelledby': `tab-${id}` }, table.node));
    dom.replace(list, buttons);
    dom.replace(container, panels);
    buttons[0].hidden = true;
    const first = made[1]?.id;

    function choose(id) {
      const chosen = made.some((tab, index) => tab.id === id && !buttons[index].hidden) ? id : first;
      made.forEach((tab, index) => {
        const front = tab.id === chosen;
        buttons[index].setAttribute('aria-selected', String(front));
        buttons[index].tabIndex = front ? 0 : -1;
        panels[index].hidden = !front;
      });
      place.set({ tab: chosen === first ? null : chosen });
    }

    list.addEventListener('keydown', (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const shown = buttons.filter((button) => !button.hidden);
      const at = shown.indexOf(document.activeElement);
      const next = shown[(at + by + shown.length) % shown.length];
      next.focus();
      next.click();
      event.preventDefault();
    });

    // `names`: of what was found by its arguments; `result`: what was found.
    function filter(wanted, names, result) {
      for (const tab of made.slice(1)) tab.table.filter(wanted, names);
      found.table.set(wanted ? result.hits : []);
      dom.replace(buttons[0], found.title, ' ', number(found));
      const gone = !wanted || result.hits.length === 0;
      buttons[0].hidden = gone;
      if (gone && !panels[0].hidden) choose(first);
    }

    choose(place.get('tab'));
    return { choose, filter, onmatch: (listener) => (onmatch = listener) };
  }

  return { create };
})();
