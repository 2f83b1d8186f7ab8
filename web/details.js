// What is said about a span, a cell or a stretch of time: tooltip, side panel, totals of a range.

const details = (() => {
  const MOVED = 4;

  // `whole`: with whole names of kernels.
  function lines(report, { row, i, cell }, whole) {
    const { timeline } = report;
    const lane = timeline.lanes[row.lane];
    if (i < 0) {
      const from = (row.cells.first + cell) * timeline.cell_ns;
      return [
        [`${format.count(row.cells.count[cell])} × ${timeline.short[row.cells.name[cell]]}`, null],
        ['summary of', `${format.time(timeline.cell_ns)} from ${format.moment(from, timeline.cell_ns)}`],
        ['busy', format.share(row.cells.fill[cell] / 255)],
        ['mostly', timeline.categories[row.cells.category[cell]]],
        ['lane', lanes.fullLabel(lane)],
      ];
    }
    const list = [
      [timeline.short[row.name[i]], null],
      ['duration', row.open[i] ? `${format.time(row.duration[i])}, never ended` : format.time(row.duration[i])],
      ['self', format.time(row.duration[i] - row.inside[i])],
      ['start', format.moment(row.start[i], Math.max(1, row.duration[i] / 100))],
      ['category', timeline.categories[row.category[i]]],
      ['layer', timeline.layers[row.layer[i]]],
      ['lane', lanes.fullLabel(lane)],
    ];
    const full = timeline.names[row.name[i]];
    if (whole && full !== timeline.short[row.name[i]]) list.splice(1, 0, ['full name', full]);
    const meaning = meant(timeline, row, i, whole);
    if (meaning) list.splice(1, 0, meaning);
    if (!Number.isNaN(row.status[i])) list.push(['status', row.status[i] === 0 ? '0, success' : `${row.status[i]}, failed`]);
    list.push(['op_id', String(row.id[i])]);
    if (row.correlation[i] !== 0) list.push(['correlation', String(row.correlation[i])]);
    return list;
  }

  function meant(timeline, row, i, whole) {
    const kind = row.detail[i];
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
      list.map(([label, value]) => [el('dt', {}, label), el('dd', {}, value)]),
    );
  }

  // The panel below the timeline, of one span.
  function ofSpan(report, view, ref, linked) {
    const { timeline } = report;
    const [title, ...rest] = lines(report, ref, true);
    const jump = (target, label) => el('button', { class: 'link', onclick: () => view.reveal(target) }, label);
    const named = (target) => `${timeline.short[target.row.name[target.i]]}, ${format.time(target.row.duration[target.i])}`;
    const around = spans.enclosing(timeline, ref);
    const others = linked.map((target) => {
      const after = target.row.start[target.i] - ref.row.start[ref.i];
      const when = after >= 0 ? `begins ${format.time(after)} later` : `began ${format.time(-after)} earlier`;
      return el('li', {}, jump(target, named(target)), ` on ${lanes.fullLabel(timeline.lanes[target.row.lane])}, ${when}`);
    });
    return [
      el('h3', {}, el('i', { class: 'swatch', style: { background: `var(--cat-${timeline.categories[ref.row.category[ref.i]]})` } }), title[0]),
      facts(rest),
      around.length > 0 && el('p', {}, 'Inside ', around.map((target, index) => [index > 0 && ' › ', jump(target, timeline.short[target.row.name[target.i]])])),
      others.length > 0 && el('h4', {}, 'Related'),
      others.length > 0 && el('ul', {}, others),
      el(
        'p',
        { class: 'actions' },
        el('button', { onclick: () => view.reveal(ref) }, 'Zoom to this'),
        el('button', { onclick: () => next(report, view, ref, -1) }, 'Previous with this name'),
        el('button', { onclick: () => next(report, view, ref, 1) }, 'Next with this name'),
      ),
    ];
  }

  // The nearest span of the same name, in any row, before or after.
  function next(report, view, ref, by) {
    const name = ref.row.name[ref.i];
    const start = ref.row.start[ref.i];
    let best = null;
    for (const row of report.timeline.rows) {
      for (let i = 0; i < row.kept; i++) {
        const away = (row.start[i] - start) * by;
        const later = away > 0 || (away === 0 && by * (row.index - ref.row.index) > 0);
        if (row.name[i] !== name || !later) continue;
        if (!best || away < best.away) best = { row, i, away };
      }
    }
    if (best) view.reveal({ row: best.row, i: best.i });
  }

  // What a stretch of time holds: by category, and by name where spans are kept exactly.
  function totals(timeline, { from, to }) {
    const number = timeline.categories.length;
    const sum = {
      count: new Float64Array(number),
      host: new Float64Array(number),
      gpu: new Float64Array(number),
      names: new Map(),
      summarised: false,
    };
    const width = timeline.cell_ns;
    for (const row of timeline.rows) {
      const side = timeline.lanes[row.lane].device != null ? sum.gpu : sum.host;
      const outer = row.depth === 0;
      if (row.cells) {
        sum.summarised = true;
        const first = Math.max(0, Math.floor(from / width) - row.cells.first);
        const last = Math.min(row.cellCount - 1, Math.ceil(to / width) - row.cells.first);
        for (let i = first; i <= last; i++) {
          const category = row.cells.category[i];
          if (category === data.EMPTY) continue;
          const left = (row.cells.first + i) * width;
          const part = Math.max(0, Math.min(to, left + width) - Math.max(from, left)) / width;
          sum.count[category] += row.cells.count[i] * part;
          if (outer) side[category] += (row.cells.fill[i] / 255) * width * part;
        }
      }
      for (let i = spans.firstAfter(row, from); i < row.kept && row.start[i] < to; i++) {
        const inside = Math.max(0, Math.min(to, row.start[i] + row.duration[i]) - Math.max(from, row.start[i]));
        const begins = row.start[i] >= from;
        if (!row.cells) {
          if (begins) sum.count[row.category[i]] += 1;
          if (outer) side[row.category[i]] += inside;
        }
        const entry = sum.names.get(row.name[i]) ?? { count: 0, time: 0, longest: null };
        entry.count += begins ? 1 : 0;
        entry.time += inside;
        if (!entry.longest || row.duration[i] > entry.longest.row.duration[entry.longest.i]) entry.longest = { row, i };
        sum.names.set(row.name[i], entry);
      }
    }
    return sum;
  }

  function ofRange(report, view, range) {
    const { timeline } = report;
    const sum = totals(timeline, range);
    const about = sum.summarised ? '≈ ' : '';
    const categories = timeline.categories
      .map((category, index) => ({ category, count: sum.count[index], host: sum.host[index], gpu: sum.gpu[index] }))
      .filter((line) => line.count > 0 || line.host + line.gpu > 0)
      .sort((a, b) => b.host + b.gpu - a.host - a.gpu);
    const names = [...sum.names].sort((a, b) => b[1].time - a[1].time).slice(0, 8);
    const cell = (text) => el('td', { class: 'number' }, text);
    return [
      el('h3', {}, `${format.time(range.to - range.from)} from ${format.moment(range.from, (range.to - range.from) / 100)}`),
      categories.length === 0
        ? el('p', { class: 'quiet' }, 'Nothing was traced in this range.')
        : el(
            'div',
            { class: 'columns' },
            el(
              'table',
              { class: 'small' },
              el('caption', {}, 'By category. Outermost calls only, so that nested ones are not counted twice.'),
              el('thead', {}, el('tr', {}, ['category', 'begun', 'host time', 'GPU time'].map((title) => el('th', { scope: 'col' }, title)))),
              el(
                'tbody',
                {},
                categories.map((line) =>
                  el(
                    'tr',
                    {},
                    el('th', { scope: 'row' }, el('i', { class: 'swatch', style: { background: `var(--cat-${line.category})` } }), line.category),
                    cell(about + format.count(Math.round(line.count))),
                    cell(line.host > 0 ? about + format.time(line.host) : '–'),
                    cell(line.gpu > 0 ? about + format.time(line.gpu) : '–'),
                  ),
                ),
              ),
            ),
            names.length > 0 &&
              el(
                'table',
                { class: 'small' },
                el('caption', {}, sum.summarised ? 'By name, for the longest spans, which are drawn individually.' : 'By name, nested calls included.'),
                el('thead', {}, el('tr', {}, ['name', 'begun', 'time'].map((title) => el('th', { scope: 'col' }, title)))),
                el(
                  'tbody',
                  {},
                  names.map(([name, entry]) =>
                    el(
                      'tr',
                      {},
                      el('th', { scope: 'row' }, el('button', { class: 'link', onclick: () => view.reveal(entry.longest) }, timeline.short[name])),
                      cell(format.count(entry.count)),
                      cell(format.time(entry.time)),
                    ),
                  ),
                ),
              ),
          ),
      el(
        'p',
        { class: 'actions' },
        el('button', { onclick: () => view.show(range.from, range.to) }, 'Zoom to this'),
        el('button', { onclick: () => view.selectRange(null) }, 'Clear'),
      ),
    ];
  }

  return { tooltip, ofSpan, ofRange, totals, facts };
})();
