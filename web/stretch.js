// The flame graph of a stretch of time: from the server, or made of the events that the page carries.

const stretchFlame = (() => {
  const REST = 150; // milliseconds without a change before it is made

  // Where it is shown; the same place for whichever stretch is selected.
  function create(report) {
    const { timeline } = report;
    const tools = el('div', { class: 'toolbar', role: 'group', 'aria-label': 'What the width means' });
    const note = el('p', { class: 'hint', role: 'status' });
    const body = el('div', { class: 'flame' });
    const node = el('div', { class: 'stretch-flame' }, el('div', { class: 'section-head' }, el('h4', {}, 'Flame graph of this stretch'), tools), note, body);
    let timer = 0;
    let asking = null;
    let shown = null;
    flame.watch(body, () => shown);

    function show(stretch) {
      clearTimeout(timer);
      asking?.abort();
      asking = new AbortController();
      shown = null;
      dom.replace(tools);
      dom.replace(body);
      const { signal } = asking;
      say('Reading the stretch …');
      timer = setTimeout(() => make(stretch, signal).catch((error) => signal.aborted || say(`It could not be made: ${error.message}.`)), REST);
      return node;
    }

    const say = (text) => dom.replace(note, text);

    async function make({ from, to }, signal) {
      const known = report.server ? await report.server.flameOf(from, to, signal, (share) => say(`Reading the stretch … ${format.share(share)}`)) : fold(timeline, from, to);
      if (signal.aborted) return;
      if (!known) {
        say('This file does not have every event of this stretch, and a flame graph of the rest would be wrong. Open the trace with cutrace view to see it.');
        return;
      }
      say(known.bare > 0 ? `${format.plural(known.bare, 'call is', 'calls are')} shown without a stack: the file has no room for it.` : '');
      shown = flame.graph(timeline, known, { body, tools });
    }

    return { show };
  }

  // Null where the page lacks events of the stretch. Calls count with the part of them that is in it, bytes by where their call begins.
  function fold(timeline, from, to) {
    if (!spans.allKept(timeline, from, to) && timeline.rows.some((row) => isSummarised(timeline, row, from, to))) return null;
    const offCpu = timeline.categories.indexOf('off-cpu');
    const host = box(null, 0, flame.FRAME);
    const gpu = box(null, 0, flame.FRAME);
    const known = { host, gpu, bare: 0 };
    const stacks = timeline.stacks.length > 0 ? stacksOf(timeline) : null;
    for (const lane of timeline.lanes) {
      const onGpu = lane.device != null;
      const list = lane.rows.flatMap((row) => within(row, from, to).map((i) => ({ row, i })));
      list.sort((a, b) => a.row.start[a.i] - b.row.start[b.i] || a.row.depth - b.row.depth);
      const path = [];
      for (const { row, i } of list) {
        const category = row.category[i];
        if (category === offCpu) continue;
        const start = row.start[i];
        const end = start + row.duration[i];
        path.length = Math.min(path.length, row.depth);
        const around = onGpu ? null : path.findLast((outer) => outer && outer.end > start)?.node;
        const stack = around ? null : onGpu ? stacks?.ofWork(row.correlation[i]) : stacks?.of({ row, i });
        if (stacks && !onGpu && !around && row.text[i] === 0) known.bare += 1;
        const node = child(around ?? below(timeline, onGpu ? gpu : host, stack), row.name[i], category);
        const inside = Math.min(end, to) - Math.max(start, from);
        node.count += 1;
        node.own[0] += inside;
        if (around) around.own[0] = Math.max(0, around.own[0] - inside);
        if (start >= from) weigh(node, timeline, { row, i }, onGpu);
        path[row.depth] = { end, node };
      }
    }
    sum(host);
    sum(gpu);
    return known;
  }

  const box = (up, name, category) => ({ up, name, category, count: 0, total: [0, 0, 0], own: [0, 0, 0], children: [] });

  function child(parent, name, category) {
    parent.known ??= new Map();
    const key = name * 256 + category;
    if (!parent.known.has(key)) {
      parent.known.set(key, box(parent, name, category));
      parent.children.push(parent.known.get(key));
    }
    return parent.known.get(key);
  }

  // The box of a stack, which is innermost first.
  function below(timeline, root, stack) {
    return (stack ?? []).reduceRight((node, frame) => child(node, data.intern(timeline, timeline.functions[frame]), flame.FRAME), root);
  }

  function weigh(node, timeline, ref, onGpu) {
    const { row, i } = ref;
    const moved = timeline.categories[row.category[i]] === 'transfer';
    if (onGpu) node.own[2] += (moved && eventOf.number(eventOf.argument(eventOf.embedded(timeline, ref), 'bytes'))) || 0;
    else if (row.detail[i] === 2) node.own[1] += row.amount[i];
    else if (row.detail[i] >= 4) node.own[2] += row.amount[i];
  }

  function sum(node) {
    node.children.forEach(sum);
    node.total = node.own.map((own, weight) => node.children.reduce((total, inner) => total + inner.total[weight], own));
  }

  // The spans of a row that have time in a stretch.
  function within(row, from, to) {
    const list = [];
    for (let i = spans.firstAfter(row, from); i < row.kept && row.start[i] < to; i++) {
      if (row.duration[i] > 0 && row.start[i] + row.duration[i] > from) list.push(i);
    }
    return list;
  }

  // Whether anything of a row in a stretch is in cells only.
  function isSummarised(timeline, row, from, to) {
    if (!row.cells) return false;
    const width = row.cell_ns ?? timeline.cell_ns;
    const first = Math.max(0, Math.floor(from / width) - row.cells.first);
    const last = Math.min(row.cellCount - 1, Math.ceil(to / width) - 1 - row.cells.first);
    return row.cells.category.subarray(first, Math.max(first, last + 1)).some((category) => category !== data.EMPTY);
  }

  // The stacks of outermost calls, and those of the calls that GPU work came from.
  function stacksOf(timeline) {
    if (timeline.ofStacks) return timeline.ofStacks;
    const of = ({ row, i }) => {
      const number = row.text[i];
      return number ? timeline.stacks[JSON.parse(timeline.texts.get(number)).s] : null;
    };
    const callers = new Map();
    for (const lane of timeline.lanes.filter((lane) => lane.device == null)) {
      for (const row of lane.rows) {
        for (let i = 0; i < row.kept; i++) {
          if (row.correlation[i] === 0) continue;
          const outer = spans.enclosing(timeline, { row, i }, (whole) => whole)[0] ?? { row, i };
          callers.set(row.correlation[i], outer);
        }
      }
    }
    const ofWork = (correlation) => (callers.has(correlation) ? of(callers.get(correlation)) : null);
    return (timeline.ofStacks = { of, ofWork });
  }

  return { create, fold };
})();
