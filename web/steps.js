// The loop's iterations, one line each: outliers are marked, a press zooms to one, and two can be compared.

const stepsView = (() => {
  // Farther from the middle than five times the usual distance, and than a tenth.
  function outliers(list) {
    const middle = median(list.map((step) => step.duration));
    const spread = median(list.map((step) => Math.abs(step.duration - middle)));
    const limit = Math.max(5 * spread, 0.1 * middle);
    for (const step of list) step.off = Math.abs(step.duration - middle) > limit ? (step.duration - middle) / Math.max(middle, 1) : 0;
    return middle;
  }

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted.length === 0 ? 0 : sorted[sorted.length >> 1];
  }

  function create(report, go) {
    const loop = report.report?.phases?.loops?.[0];
    if (!loop || !(loop.iterations > 1)) return null;
    const rows = (report.steps ?? []).map(([from, duration], index) => ({ number: index + 1, from, to: from + duration, duration, off: 0 }));
    if (rows.length === 0) return null;
    const middle = outliers(rows);
    // Which step a call, or its work on the GPU, belongs to.
    report.stepAt = (called, ran) => {
      const at = loop.on_gpu ? ran : called;
      return rows.find((row) => at != null && row.from <= at && at < row.to)?.number;
    };
    const named = report.timeline.names.indexOf(loop.mark);
    const mark = named < 0 ? loop.mark : report.timeline.short[named];
    const chosen = new Set();
    const comparison = el('div', { 'aria-live': 'polite' });
    const note = el('p', { class: 'hint' });
    const table = tables.create({
      caption: `Iterations of the loop that ${mark.length > 120 ? `${mark.slice(0, 119)}…` : mark} begins${loop.on_gpu ? ', as the GPU ran them' : ''}. Tick two to compare them.`,
      rows,
      sort: 0,
      ascending: true,
      page: 20,
      search: (row) => `step ${row.number}`,
      open: (row) => go.stretch(row.from, row.to),
      columns: [
        { title: 'step', key: (row) => row.number, number: true, show: (row) => String(row.number) },
        { title: 'start', key: (row) => row.from, number: true, show: (row) => format.moment(row.from, 1e3) },
        { title: 'duration', key: (row) => row.duration, number: true, show: (row) => tables.bar(format.time(row.duration), row.duration / Math.max(loop.max_ns, 1)) },
        { title: 'from the median', key: (row) => row.duration - middle, number: true, show: (row) => `${row.duration >= middle ? '+' : ''}${format.time(row.duration - middle)}` },
        { title: 'outlier', key: (row) => Math.abs(row.off), show: (row) => (row.off ? el('strong', { class: row.off > 0 ? 'bad' : 'warn' }, `${row.off > 0 ? 'slow' : 'fast'}, ${row.off > 0 ? '+' : '−'}${format.share(Math.abs(row.off))}`) : '') },
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
      dom.replace(comparison, two.length === 2 && compare(report, two[0], two[1], go));
    }

    function say() {
      const slow = rows.filter((row) => row.off > 0).length;
      dom.replace(
        note,
        `${format.plural(loop.iterations, 'iteration', 'iterations')}: p50 ${format.time(loop.p50_ns)}, p99 ${format.time(loop.p99_ns)}, longest ${format.time(loop.max_ns)}. ${format.plural(slow, 'slow outlier', 'slow outliers')}.`,
        rows.length < loop.iterations && ` The table has the first ${format.count(rows.length)}.`,
      );
    }

    say();
    return { id: 'steps', title: 'Steps', view: { node: el('div', {}, note, table.node, comparison), filter() {}, rows: () => rows } };
  }

  // Two stretches side by side, by name: what one did more, or longer.
  function compare(report, a, b, go) {
    const { timeline } = report;
    const [first, second] = [a, b].map((step) => range.totals(timeline, step));
    const names = new Set([...first.names.keys(), ...second.names.keys()]);
    const rows = [...names].map((name) => {
      const [x, y] = [first, second].map((sum) => sum.names.get(name) ?? { count: 0, time: 0 });
      return { name: timeline.short[name], a: x, b: y, more: y.time - x.time };
    });
    const table = tables.create({
      caption: `Step ${b.number} beside step ${a.number}: ${format.time(b.duration)} and ${format.time(a.duration)}. Nested calls are counted in what is around them, too.${first.summarised ? ' Of spans that are kept one by one.' : ''}`,
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
