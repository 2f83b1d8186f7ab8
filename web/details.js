// What is said about one span or cell: the tooltip, and the panel below the timeline.

const details = (() => {
  const MOVED = 4;
  const STACK = 6; // frames that are seen without asking
  // Arguments of GPU work that have words of their own.
  const OF_KERNELS = ['grid', 'block', 'registers', 'static_shared', 'dynamic_shared', 'local', 'graph', 'node', 'origin.operator'];
  const OF_COPIES = ['bytes', 'from', 'to'];

  const labelOf = (timeline, { row, i }) => timeline.short[row.label[i]];

  // 'N calls, mostly X (k of N)': what a cell sums up, and no more than is known.
  function ofCell(timeline, cells, cell) {
    const name = timeline.short[cells.name[cell]];
    const count = cells.count[cell];
    if (count === 0) return `${name}, begun earlier`;
    const most = cells.most[cell] >> 1;
    const exactly = cells.most[cell] & 1;
    if (most === count) return count === 1 ? `1 call: ${name}` : `${format.count(count)} calls, all ${name}`;
    if (most === 0) return `${format.plural(count, 'call', 'calls')}, most time in ${name}`;
    return `${format.plural(count, 'call', 'calls')}, ${most * 2 > count ? 'mostly' : 'most often'} ${name} (${exactly ? '' : 'at least '}${format.count(most)} of ${format.count(count)})`;
  }

  // The facts of a tooltip: [label, value]; the first is the title.
  function lines(report, { row, i, cell }) {
    const { timeline } = report;
    const lane = timeline.lanes[row.lane];
    if (i < 0) {
      const width = row.cell_ns ?? timeline.cell_ns;
      const from = (row.cells.first + cell) * width;
      return [
        [ofCell(timeline, row.cells, cell), null],
        ['summary of', `${format.time(width)} from ${format.moment(from, width)}`],
        ['busy', format.share(row.cells.fill[cell] / 255)],
        ['mostly', timeline.categories[row.cells.category[cell]]],
        ['lane', lanes.fullLabel(lane)],
        ['single calls', report.server ? 'zoom in' : 'detail needs cutrace view'],
      ];
    }
    const list = [
      [labelOf(timeline, { row, i }), null],
      ['duration', durationOf(row, i)],
      ['self', format.time(row.duration[i] - row.inside[i])],
      ['start', format.moment(row.start[i], Math.max(1, row.duration[i] / 100))],
      ['category', timeline.categories[row.category[i]]],
      ['layer', timeline.layers[row.layer[i]]],
      ['lane', lanes.fullLabel(lane)],
    ];
    const meaning = meant(timeline, row, i, false);
    if (meaning) list.splice(1, 0, meaning);
    if (!Number.isNaN(row.status[i])) list.push(['status', statusOf(row, i, eventOf.embedded(timeline, { row, i })?.result)]);
    list.push(['op_id', String(row.id[i])]);
    return list;
  }

  const durationOf = (row, i) => (row.open[i] ? `${format.time(row.duration[i])}, never ended` : format.time(row.duration[i]));

  function statusOf(row, i, result) {
    const code = row.status[i];
    if (result) return code === 0 ? result : `${result} (${code}), failed`;
    return code === 0 ? '0, success' : `${code}, failed`;
  }

  function meant(timeline, row, i, whole) {
    const kind = row.detail?.[i] ?? 0;
    if (kind === 0) return null;
    if (kind === 1) return ['kernel', (whole ? timeline.names : timeline.short)[row.amount[i]]];
    if (kind === 2) return ['allocated', format.bytes(row.amount[i])];
    if (kind === 3) return ['freed', format.bytes(row.amount[i])];
    const rate = row.duration[i] > 0 ? `, ${format.rate((row.amount[i] / row.duration[i]) * 1e9)} over the call` : '';
    return [timeline.directions[kind - MOVED], `${format.bytes(row.amount[i])}${rate}`];
  }

  function tooltip(report) {
    const box = byId('tooltip');
    return {
      show(x, y, found) {
        dom.replace(
          box,
          lines(report, found).map(([label, value]) =>
            value == null ? el('strong', {}, label) : el('div', {}, el('span', {}, label), el('span', {}, value)),
          ),
        );
        box.hidden = false;
        const { width, height } = box.getBoundingClientRect();
        const left = x + 16 + width > innerWidth ? x - 12 - width : x + 16;
        const top = y + 16 + height > innerHeight ? y - 12 - height : y + 16;
        box.style.left = `${Math.max(4, left)}px`;
        box.style.top = `${Math.max(4, top)}px`;
      },
      hide() {
        box.hidden = true;
      },
    };
  }

  function facts(list) {
    return el(
      'dl',
      { class: 'facts' },
      list.filter(([, value]) => value != null && value !== '').map(([label, value]) => [el('dt', {}, label), el('dd', {}, value)]),
    );
  }

  // The panel of one span. `known`: what eventOf says of it; null while the server is asked, or where nothing is known.
  function ofSpan(report, view, ref, linked, known, waiting) {
    const { timeline } = report;
    const { row, i } = ref;
    // A kernel is called by its name, an ioctl by what it asks for.
    const full = timeline.names[isGpu(timeline, ref) ? row.name[i] : row.label[i]];
    const title = labelOf(timeline, ref);
    const sentence = request(known, title);
    const kernel = kernelFacts(report, ref, linked, known, view.scene.shown);
    const copy = copyFacts(report, ref, linked, known, view.scene.shown);
    const list = [
      full !== title && ['full name', full],
      known?.name && known.name !== title && !isGpu(timeline, ref) && ['call', known.name],
      kernel.length === 0 && copy.length === 0 && meant(timeline, row, i, true),
      ['duration', durationOf(row, i)],
      row.inside[i] > 0 && ['self', format.time(row.duration[i] - row.inside[i])],
      ['start', format.moment(row.start[i], Math.max(1, row.duration[i] / 100))],
      !Number.isNaN(row.status[i]) && ['result', statusOf(row, i, known?.result)],
      ['category', timeline.categories[row.category[i]]],
      ['layer', [timeline.layers[row.layer[i]], known?.type && known.type !== timeline.layers[row.layer[i]] && ` · ${known.type}`]],
      ['lane', [lanes.fullLabel(timeline.lanes[row.lane]), known?.cpu != null && `, CPU ${known.cpu}`]],
      known?.context && ['context', known.context],
      ['op_id', String(row.id[i])],
      row.correlation[i] !== 0 && ['correlation', String(row.correlation[i])],
    ].filter(Boolean);
    const failed = !Number.isNaN(row.status[i]) && row.status[i] !== 0;
    const inWords = isGpu(timeline, ref) ? (kernel.length > 0 ? OF_KERNELS : copy.length > 0 ? OF_COPIES : []) : [];
    const rest = (known?.arguments ?? []).filter((field) => !inWords.includes(field.name));
    return [
      el('h3', {}, tables.swatch(timeline.categories[row.category[i]]), title, failed && el('span', { class: 'bad' }, ' failed')),
      sentence && el('p', { class: 'mono request' }, sentence),
      chain(report, view, ref, linked, known),
      el('div', { class: 'details-columns' },
        block('What it is', facts(list)),
        kernel.length > 0 && block('Kernel', facts(kernel)),
        copy.length > 0 && block('Copy', facts(copy)),
        known?.meaning?.ptr && block('Memory', facts([meant(timeline, row, i, true) ?? [known.meaning.op === 'free' ? 'freed' : 'allocated', format.bytes(known.meaning.size)], ['at', known.meaning.ptr], ['space', known.meaning.space]].filter(Boolean))),
        rest.length > 0 && block('Arguments', fields(rest)),
        known?.request?.fields.length > 0 && block('Request', fields(known.request.fields)),
        known?.request && known.request.fields.length === 0 && block('Request', facts([['command', known.request.command], ...Object.entries(known.request.decoded)])),
        known?.stack.length > 0 && block('Stack', stack(known.stack)),
        caused(report, view, ref, linked, known)),
      waiting && el('p', { class: 'quiet' }, 'Loading arguments and stack …'),
      !known && !waiting && el('p', { class: 'quiet' }, report.server ? 'cutrace view could not say more about this call.' : ['This file has no room for its arguments: detail needs ', el('code', {}, 'cutrace view'), '.']),
      el(
        'p',
        { class: 'actions' },
        el('button', { onclick: () => view.reveal(ref) }, 'Zoom to this'),
        el('button', { onclick: () => next(report, view, ref, -1) }, 'Previous with this name'),
        el('button', { onclick: () => next(report, view, ref, 1) }, 'Next with this name'),
      ),
    ];
  }

  const block = (title, ...children) => el('div', {}, el('h4', {}, title), children);

  // An ioctl in one line: what it asked, of what, and what the driver answered.
  function request(known, title) {
    if (!known?.request) return null;
    const { decoded, result, words } = known.request;
    if (words) return words;
    const control = decoded.control && !title.includes(decoded.control) ? ` (${decoded.control})` : '';
    return `${title}${control}${decoded.object ? ` of ${decoded.object}` : ''} → ${result ?? 'not known'}`;
  }

  function fields(list) {
    return el('table', { class: 'small fields' }, el('tbody', {}, list.map((field) =>
      el('tr', {}, el('th', { scope: 'row' }, field.out && el('span', { class: 'quiet', title: 'set by the call' }, '→ '), field.name), el('td', { class: 'mono' }, field.value)))));
  }

  function stack(frames) {
    const items = (list) => list.map((frame) => el('li', {}, frame));
    if (frames.length <= STACK + 2) return el('ol', { class: 'frames mono' }, items(frames));
    return [
      el('ol', { class: 'frames mono' }, items(frames.slice(0, STACK))),
      el('details', {}, el('summary', {}, `${frames.length - STACK} more frames`), el('ol', { class: 'frames mono', start: STACK + 1 }, items(frames.slice(STACK)))),
    ];
  }

  const isGpu = (timeline, ref) => timeline.layers[ref.row.layer[ref.i]] === 'gpu';

  // The call that handed GPU work over, or the work of a call.
  const callOf = (timeline, linked) => linked.find((other) => !isGpu(timeline, other)) ?? null;

  // The innermost operator around a call, or else the innermost range (NVTX): frameworks name their operators so.
  function operatorOf(timeline, call, shown) {
    const around = spans.enclosing(timeline, call, shown);
    const innermost = (type) => around.filter((span) => eventOf.embedded(timeline, span)?.type === type).at(-1);
    const found = innermost('operator') ?? innermost('range');
    return found ? labelOf(timeline, found) : null;
  }

  function kernelFacts(report, ref, linked, known, shown) {
    const { timeline } = report;
    const gpu = isGpu(timeline, ref);
    if (timeline.categories[ref.row.category[ref.i]] !== 'kernel' && !known?.meaning?.grid) return [];
    const call = gpu ? callOf(timeline, linked) : null;
    const work = gpu ? null : linked.find((other) => isGpu(timeline, other));
    const own = gpu ? known : ((work && eventOf.embedded(timeline, work)) ?? known?.work ?? known);
    const launch = eventOf.launchOf(own, gpu ? ((call && eventOf.embedded(timeline, call)) ?? known?.call) : known);
    if (!launch) return [];
    const sizes = (list) => `${list.map(format.count).join(' × ')} = ${format.count(list.reduce((product, side) => product * side, 1))}`;
    const found = occupancy.of(launch, occupancy.limitsOf(timeline, timeline.lanes[ref.row.lane].device ?? eventDevice(known)));
    const list = [
      !gpu && ['kernel', known?.meaning?.kernel ?? (ref.row.detail?.[ref.i] === 1 ? timeline.names[ref.row.amount[ref.i]] : null)],
      ['grid', `${sizes(launch.grid)} blocks`],
      ['block', `${sizes(launch.block)} threads`],
      ['shared memory', sharedWords(launch)],
      launch.registers != null && ['registers', `${launch.registers} per thread`],
      launch.local > 0 && ['local memory', `${format.bytes(launch.local)} per thread`],
      found && ['occupancy', occupancy.words(found)],
      found?.waves != null && waves(found, launch),
      launch.graph != null && ['graph', `${launch.graph}${launch.node != null ? `, node ${launch.node}` : ''}`],
    ];
    const [from, to] = gpu ? [call, ref] : [ref, work];
    list.push(['operator', known?.operator ?? (from && operatorOf(timeline, from, shown))]);
    list.push(['step', report.stepAt?.(from?.row.start[from.i], to?.row.start[to.i])?.toString()]);
    if (from && to) list.push(['queue delay', queueDelay(from, to)]);
    else if (known?.meaning?.queue_delay_ns != null) list.push(['queue delay', `${format.time(known.meaning.queue_delay_ns)} from the call to the start`]);
    return list.filter(Boolean);
  }

  // How often the blocks fill the GPU, or how much of it they leave empty.
  function waves(found, launch) {
    const blocks = launch.grid.reduce((product, side) => product * side, 1);
    if (blocks < found.multiprocessors) return ['SMs used', `at most ${format.count(blocks)} of ${format.count(found.multiprocessors)}: one block each`];
    return ['waves', `${found.waves < 10 ? found.waves.toFixed(2) : format.count(Math.round(found.waves))} of blocks over all SMs`];
  }

  const eventDevice = (known) => known?.device ?? 0;

  function sharedWords({ fixed, dynamic }) {
    if (fixed == null && dynamic == null) return '0\u2009B';
    const parts = [fixed > 0 && `${format.bytes(fixed)} static`, dynamic > 0 && `${format.bytes(dynamic)} dynamic`].filter(Boolean);
    return parts.join(', ') || '0\u2009B';
  }

  // From the beginning of the call to the beginning of the work.
  function queueDelay(call, work) {
    const delay = work.row.start[work.i] - call.row.start[call.i];
    return delay >= 0 ? `${format.time(delay)} from the call to the start` : 'starts before its call, because the clocks are not exact';
  }

  function copyFacts(report, ref, linked, known, shown) {
    const { timeline } = report;
    if (timeline.categories[ref.row.category[ref.i]] !== 'transfer') return [];
    const gpu = isGpu(timeline, ref);
    const call = gpu ? callOf(timeline, linked) : ref;
    const work = gpu ? ref : linked.find((other) => isGpu(timeline, other));
    // What the page does not have itself, the server was asked for.
    const far = gpu || work ? null : known?.work;
    const ofWork = work ? (work === ref ? known : (eventOf.embedded(timeline, work) ?? known?.work)) : far;
    // What is copied from where to where is known of the outermost call: of cudaMemcpyAsync, not of the driver's call inside it.
    const calls = call ? [call, ...spans.enclosing(timeline, call, shown).reverse()] : [];
    const saying = calls.find((span) => (span.row.detail?.[span.i] ?? 0) >= MOVED) ?? call;
    const kind = saying?.row.detail?.[saying.i] ?? 0;
    const moved = [saying && eventOf.embedded(timeline, saying), known, known?.call, known?.around].map((event) => event?.meaning).find((meaning) => meaning?.src ?? meaning?.dst);
    const size = eventOf.number(eventOf.argument(ofWork, 'bytes')) ?? (kind >= MOVED ? saying.row.amount[saying.i] : eventOf.number(known?.meaning?.size));
    if (size == null) return [];
    const end = (memory, address) => [memory, address].filter(Boolean).join(', ') || null;
    const timed = work ?? call;
    const time = far ? far.place.duration : timed.row.duration[timed.i];
    const memories = [eventOf.argument(ofWork, 'from'), eventOf.argument(ofWork, 'to')];
    return [
      ['direction', kind >= MOVED ? timeline.directions[kind - MOVED] : (moved?.direction ?? known?.meaning?.direction)],
      ['size', format.bytes(size)],
      ['source', end(memories[0], moved?.src)],
      ['destination', end(memories[1], moved?.dst)],
      !memories.some(Boolean) && known?.meaning?.pinned != null && ['host memory', known.meaning.pinned ? 'pinned' : 'pageable'],
      memories.some((memory) => memory === 'pinned' || memory === 'pageable') && ['host memory', memories.includes('pageable') ? 'pageable: the driver copies it through its own buffer' : 'pinned'],
      time > 0 && ['bandwidth', `${format.rate((size / time) * 1e9)}${work || far ? ' on the GPU' : ' over the call'}`],
      work && call && work !== call && ['queue delay', queueDelay(call, work)],
      far && ['queue delay', `${format.time(Math.max(0, far.place.start - ref.row.start[ref.i]))} from the call to the start`],
    ].filter(Boolean);
  }

  // Outermost first: what it happened inside of.
  function chain(report, view, ref, linked, known) {
    const { timeline } = report;
    const call = isGpu(timeline, ref) ? callOf(timeline, linked) : ref;
    const around = call ? spans.enclosing(timeline, call, view.scene.shown) : [];
    const named = known?.parents?.length > around.length ? known.parents.map((parent) => [parent.name, () => view.revealId(parent.id)]) : around.map((target) => [labelOf(timeline, target), () => view.reveal(target)]);
    return named.length > 0 && el('p', {}, isGpu(timeline, ref) ? 'Its call was inside ' : 'Inside ', named.map(([name, open], index) => [index > 0 && ' › ', el('button', { class: 'link', onclick: open }, name)]));
  }

  // The GPU work of a call and when it ran; the call of GPU work.
  function caused(report, view, ref, linked, known) {
    const { timeline } = report;
    const start = ref.row.start[ref.i];
    const gpu = isGpu(timeline, ref);
    const when = (at) => (at >= start ? `begins ${format.time(at - start)} later` : `began ${format.time(start - at)} earlier`);
    let list = linked.slice(0, 50).map((target) => ({ name: labelOf(timeline, target), start: target.row.start[target.i], duration: target.row.duration[target.i], lane: timeline.lanes[target.row.lane], open: () => view.reveal(target) }));
    if (known?.caused?.length > list.length) {
      list = known.caused.slice(0, 50).map((work) => ({ name: work.name, start: work.start_ns, duration: work.duration_ns, lane: timeline.lanes[work.lane], open: () => view.revealId(work.id) }));
    }
    if (list.length === 0) return null;
    return block(gpu ? 'Belongs to' : 'Caused on the GPU', el('ul', {}, list.map((target) =>
      el('li', {}, el('button', { class: 'link', onclick: target.open }, `${target.name}, ${format.time(target.duration)}`), target.lane && ` on ${lanes.fullLabel(target.lane)}`, `, ${when(target.start)}`))));
  }

  // The nearest span of the same name, in any row, before or after. A server knows those that the page does not carry, too.
  function next(report, view, ref, by) {
    if (report.server) {
      report.server.next(labelOf(report.timeline, ref), ref.row.start[ref.i], ref.row.id[ref.i], by).then((hit) => hit && view.revealHit(hit), () => {});
      return;
    }
    const name = ref.row.label[ref.i];
    const start = ref.row.start[ref.i];
    let best = null;
    for (const row of view.rows()) {
      for (let i = 0; i < row.kept; i++) {
        const away = (row.start[i] - start) * by;
        const later = away > 0 || (away === 0 && by * (row.index - ref.row.index) > 0);
        if (row.label[i] !== name || !later) continue;
        if (!best || away < best.away) best = { row, i, away };
      }
    }
    if (best) view.reveal({ row: best.row, i: best.i });
  }

  return { tooltip, ofSpan, ofCell, facts, labelOf };
})();
