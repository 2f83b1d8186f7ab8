// What a stretch of time holds: totals by category and by name, and the panel that shows them.

const range = (() => {
  // What a stretch of time holds: by category, and by name where spans are kept exactly.
  // `rows`: as they are drawn, which may be finer than what the page carries.
  function totals(timeline, { from, to }, rows = timeline.rows) {
    const number = timeline.categories.length;
    const sum = {
      timeline,
      count: new Float64Array(number),
      host: new Float64Array(number),
      gpu: new Float64Array(number),
      names: new Map(),
      summarised: false,
    };
    for (const row of rows) {
      const width = row.cell_ns ?? timeline.cell_ns;
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
        const entry = sum.names.get(row.label[i]) ?? { count: 0, time: 0, longest: null };
        entry.count += begins ? 1 : 0;
        entry.time += inside;
        if (!entry.longest || row.duration[i] > entry.longest.row.duration[entry.longest.i]) entry.longest = { row, i };
        sum.names.set(row.label[i], entry);
      }
    }
    return sum;
  }

  function panel(report, view, stretch) {
    const { timeline } = report;
    const { from, to } = view.scene.view;
    const sum = totals(timeline, stretch, stretch.from >= from && stretch.to <= to ? view.rows() : timeline.rows);
    const about = sum.summarised ? '≈ ' : '';
    const categories = timeline.categories
      .map((category, index) => ({ category, count: sum.count[index], host: sum.host[index], gpu: sum.gpu[index] }))
      .filter((line) => line.count > 0 || line.host + line.gpu > 0)
      .sort((a, b) => b.host + b.gpu - a.host - a.gpu);
    const names = [...sum.names].sort((a, b) => b[1].time - a[1].time).slice(0, 8);
    const cell = (text) => el('td', { class: 'number' }, text);
    const heading = (title, index) => el('th', { scope: 'col', class: index > 0 ? 'number' : null }, title);
    return [
      el('h3', {}, `${format.time(stretch.to - stretch.from)} from ${format.moment(stretch.from, (stretch.to - stretch.from) / 100)}`),
      categories.length === 0
        ? el('p', { class: 'quiet' }, 'Nothing was traced in this range.')
        : el(
            'div',
            { class: 'columns' },
            el(
              'table',
              { class: 'small' },
              el('caption', {}, 'By category. Times are of outermost calls, so that nested ones are not counted twice; begun counts nested ones too.'),
              el('thead', {}, el('tr', {}, ['category', 'begun', 'host time', 'GPU time'].map(heading))),
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
                el('thead', {}, el('tr', {}, ['name', 'begun', 'time'].map(heading))),
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
        el('button', { onclick: () => view.show(stretch.from, stretch.to) }, 'Zoom to this'),
        el('button', { onclick: () => view.selectRange(null) }, 'Clear'),
      ),
      categories.length > 0 && (report.stretchFlame ??= stretchFlame.create(report)).show(stretch),
    ];
  }

  return { totals, panel };
})();
