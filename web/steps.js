// The program's steps, one line each: outliers are marked, a press zooms to one, and two can be compared.

const stepsView = (() => {
  const MOST_SPANS = 20000; // of a step that is compared
  const MOST_ROWS = 2000; // that the page carries

  // Farther from the middle than five times the usual distance, and than a tenth.
  function outliers(list, middle) {
    const spread = median(list.map((step) => Math.abs(step.duration - middle)));
    const limit = Math.max(5 * spread, 0.1 * middle);
    for (const step of list) step.off = Math.abs(step.duration - middle) > limit ? (step.duration - middle) / Math.max(middle, 1) : 0;
  }

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted.length === 0 ? 0 : sorted[sorted.length >> 1];
  }

  // The steps that the framework's optimizer ends, or else the iterations of the loop that was found.
  function found(report) {
    const said = report.report?.steps;
    if (said?.steps?.length > 2) {
      const rows = said.steps.map((step, index) => ({ ...step, number: index + 1, from: Math.max(0, step.start_ns - report.origin_ns), duration: step.length_ns }));
      const middle = median(rows.slice(1).map((row) => row.duration));
      const longest = Math.max(...rows.map((row) => row.duration));
      return {
        rows,
        middle,
        on_gpu: false,
        count: rows.length + said.left_out,
        caption: `A step ends when ${said.mark} ends.`,
        note: `median ${format.time(middle)} without the first, longest ${format.time(longest)}`,
      };
    }
    const loop = report.report?.phases?.loops?.[0];
    if (!loop || !(loop.iterations > 1)) return null;
    const kernel = (report.report.functions?.kernels ?? []).find((row) => row.name === loop.mark || (row.variants ?? []).includes(loop.mark));
    const named = report.timeline.names.indexOf(loop.mark);
    const mark = kernel?.short_name ?? (named < 0 ? loop.mark : report.timeline.short[named]);
    return {
      rows: (report.steps ?? []).map(([from, duration], index) => ({ number: index + 1, from, duration })),
      // As everywhere in the report: without the first few, which are often slower.
      middle: loop.p50_ns,
      on_gpu: loop.on_gpu,
      count: loop.iterations,
      caption: `A step begins with ${mark.length > 120 ? `${mark.slice(0, 119)}…` : mark}${loop.on_gpu ? ', as the GPU ran it' : ''}.`,
      note: `median ${format.time(loop.p50_ns)} and p99 ${format.time(loop.p99_ns)} without the first few, longest ${format.time(loop.max_ns)}`,
    };
  }

  // What the framework's steps know besides.
  function more(rows) {
    const has = (key) => rows.some((row) => row[key] > 0);
    const time = (title, key) => has(key) && { title, key: (row) => row[key], number: true, show: (row) => format.time(row[key]) };
    const count = (title, key) => has(key) && { title, key: (row) => row[key], number: true, show: (row) => format.count(row[key]) };
    return [count('operators', 'operators'), count('GPU operations', 'gpu_operations'), time('GPU time', 'gpu_ns'), count('copies', 'copies'), time('communication', 'communication_ns'), time('waiting for data', 'data_ns')].filter(Boolean);
  }

  function create(report, go) {
    const list = found(report);
    if (!list || list.rows.length === 0) return null;
    const { middle } = list;
    const rows = list.rows.map((row) => ({ ...row, to: row.from + row.duration, off: 0 }));
    outliers(rows, middle);
    const most = Math.max(1, ...rows.map((row) => row.duration));
    // Which step a call, or its work on the GPU, belongs to.
    report.stepAt = (called, ran) => {
      const at = list.on_gpu ? ran : called;
      return rows.find((row) => at != null && row.from <= at && at < row.to)?.number;
    };
    const chosen = new Set();
    const comparison = el('div', { 'aria-live': 'polite' });
    const note = el('p', { class: 'hint' });
    const table = tables.create({
      caption: `${list.caption} Tick two to compare them.`,
      rows,
      sort: 0,
      ascending: true,
      page: 20,
      search: (row) => `step ${row.number}`,
      open: (row) => go.stretch(row.from, row.to),
      columns: [
        { title: 'step', key: (row) => row.number, number: true, show: (row) => String(row.number) },
        { title: 'start', key: (row) => row.from, number: true, show: (row) => format.moment(row.from, 1e3) },
        { title: 'duration', key: (row) => row.duration, number: true, show: (row) => tables.bar(format.time(row.duration), row.duration / most) },
        { title: 'from the median', key: (row) => row.duration - middle, number: true, show: (row) => `${row.duration >= middle ? '+' : ''}${format.time(row.duration - middle)}` },
        { title: 'outlier', key: (row) => Math.abs(row.off), show: (row) => (row.off ? el('strong', { class: row.off > 0 ? 'bad' : 'warn' }, `${row.off > 0 ? 'slow' : 'fast'}, ${row.off > 0 ? '+' : '−'}${format.share(Math.abs(row.off))}`) : '') },
        ...more(rows),
        { title: 'compare', key: () => 0, show: (row) => box(row) },
      ],
    });

    function box(row) {
      return el('input', { type: 'checkbox', 'aria-label': `Compare step ${row.number}`, checked: chosen.has(row.number), onchange: (event) => tick(row, event.target) });
    }

    function tick(row, input) {
      if (input.checked) chosen.add(row.number);
      else chosen.delete(row.number);
      // The oldest gives way to the third.
      if (chosen.size > 2) {
        chosen.delete([...chosen][0]);
        table.set(rows);
      }
      const two = [...chosen].sort((a, b) => a - b).map((number) => rows[number - 1]);
      show(two);
    }

    // With what the page carries at once, then with every event where a server has them.
    async function show(two) {
      const isShown = () => two.length === 2 && two.every((step) => chosen.has(step.number));
      dom.replace(comparison, isShown() && compare(report, two, two.map((step) => range.totals(report.timeline, step)), go));
      if (!isShown() || !report.server) return;
      const sums = await Promise.all(two.map((step) => served(report, step))).catch(() => null);
      if (sums && isShown()) dom.replace(comparison, compare(report, two, sums, go));
    }

    function say() {
      const slow = rows.filter((row) => row.off > 0).length;
      dom.replace(
        note,
        `${format.plural(list.count, 'step', 'steps')}: ${list.note}. ${format.plural(slow, 'slow outlier', 'slow outliers')}.`,
        (rows.length < list.count || rows.length === MOST_ROWS) && ` The table has the first ${format.count(rows.length)}.`,
      );
    }

    say();
    return { id: 'steps', title: 'Steps', view: { node: el('div', {}, note, table.node, comparison), filter() {}, rows: () => rows } };
  }

  // What a step holds, by the server's rows.
  async function served(report, step) {
    const { timeline } = report.server;
    const { rows } = await report.server.spansOf(step.from, step.to, timeline.lanes.map((lane) => lane.index), MOST_SPANS);
    return range.totals(timeline, step, rows);
  }

  // By what bars show: one name has other numbers in the server's answers.
  function byName(timeline, sum) {
    const found = new Map();
    for (const [name, entry] of sum.names) {
      // Threads that wait all the time say nothing of a step.
      if (timeline.short[name] === 'off-cpu') continue;
      const known = found.get(timeline.short[name]) ?? { count: 0, time: 0 };
      found.set(timeline.short[name], { count: known.count + entry.count, time: known.time + entry.time });
    }
    return found;
  }

  // Two stretches side by side, by name: what one did more, or longer.
  function compare(report, [a, b], sums, go) {
    const [first, second] = sums.map((sum) => byName(sum.timeline, sum));
    const names = new Set([...first.keys(), ...second.keys()]);
    const rows = [...names].map((name) => {
      const [x, y] = [first, second].map((sum) => sum.get(name) ?? { count: 0, time: 0 });
      return { name, a: x, b: y, more: y.time - x.time };
    });
    const summarised = sums.some((sum) => sum.summarised);
    const table = tables.create({
      caption: `Step ${b.number} beside step ${a.number}: ${format.time(b.duration)} and ${format.time(a.duration)}. A nested call also counts for the calls around it.${summarised ? ' Calls that this page only summarises are not counted.' : ''}`,
      rows,
      sort: 1,
      page: 15,
      search: (row) => row.name,
      columns: [
        { title: 'name', key: (row) => row.name, name: true },
        { title: `more in step ${b.number}`, key: (row) => Math.abs(row.more), number: true, show: (row) => `${row.more >= 0 ? '+' : ''}${format.time(row.more)}` },
        { title: `time in ${a.number}`, key: (row) => row.a.time, number: true, show: (row) => format.time(row.a.time) },
        { title: `time in ${b.number}`, key: (row) => row.b.time, number: true, show: (row) => format.time(row.b.time) },
        { title: `begun in ${a.number}`, key: (row) => row.a.count, number: true, show: (row) => format.count(row.a.count) },
        { title: `begun in ${b.number}`, key: (row) => row.b.count, number: true, show: (row) => format.count(row.b.count) },
      ],
    });
    return el('div', { id: 'steps-compared', style: { marginTop: '10px' } },
      el('p', { class: 'actions' }, [a, b].map((step) => el('button', { type: 'button', onclick: () => go.stretch(step.from, step.to) }, `Show step ${step.number}`))),
      table.node);
  }

  return { create };
})();
