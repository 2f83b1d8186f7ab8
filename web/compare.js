// `cutrace view A B`: the second trace below the first on one scale, and what differs beside them.

const compare = (() => {
  // What `--fail-on` calls by other names.
  const WORDS = { total: 'whole run', 'gpu.busy': 'GPU busy, whole run', 'gpu.idle': 'GPU idle, whole run', 'memory.peak': 'memory peak', 'memory.leaked': 'never freed', 'transfer.bytes': 'bytes copied', 'api.count': 'API calls', 'launch.count': 'launches, whole run', 'alloc.count': 'allocations' };
  const unit = { time: format.time, bytes: format.bytes, count: format.count };

  function create([a, b], first, hooksOf, { tooltip, find, connect }) {
    const canvas = el('canvas', { id: 'timeline-canvas-b', class: 'timeline-canvas', tabindex: 0, role: 'application', 'aria-label': 'Timeline of the second trace', 'aria-describedby': 'timeline-keys' });
    const spacer = el('div', { class: 'timeline-spacer' }, canvas);
    const scroller = el('div', { class: 'timeline-scroll', style: { borderRadius: '8px' } }, spacer);
    const drawn = byId('timelines-drawn');
    drawn.prepend(sideTitle('A', a));
    drawn.append(sideTitle('B', b), scroller, byId('timeline-keys'), byId('timeline-detail'));
    byId('timelines').classList.add('compared');
    const second = timelineView.create(b, hooksOf(b, () => second), { canvas, scroller, spacer });
    if (a.served?.traces > 1) connect(b, second, 1);
    timelineInput.attach(second, tooltip);
    together(first, second);
    find.also(second);
    byId('timelines').append(el('aside', { id: 'diff', 'aria-label': 'What differs between A and B' }, differences(first, second, find)));
  }

  function sideTitle(letter, report) {
    const command = (report.meta.command ?? []).join(' ');
    return el('div', { class: 'side-title' }, el('b', {}, letter), el('span', { class: 'mono' }, command || 'unknown command'), el('span', { class: 'quiet' }, format.time(report.timeline.end_ns)));
  }

  // What is in view in one is in view in the other.
  function together(first, second) {
    let moving = false;
    const follow = (leader, other) =>
      leader.onchange(({ from, to }) => {
        if (moving) return;
        moving = true;
        other.show(from, to);
        moving = false;
      });
    follow(first, second);
    follow(second, first);
  }

  const changed = (change) => `${change.change > 0 ? '+' : change.change < 0 ? '−' : ''}${(unit[change.unit] ?? format.count)(Math.abs(change.change))}`;
  const part = (change) => (change.relative == null ? '' : ` (${change.relative > 0 ? '+' : change.relative < 0 ? '−' : ''}${format.share(Math.abs(change.relative))})`);
  const colour = (change) => (change.unit === 'count' || Math.abs(change.relative ?? 1) < 0.02 || change.change === 0 ? null : change.change > 0 ? 'bad' : 'good');

  function differences(first, second, find) {
    let diff;
    try {
      diff = JSON.parse(byId('data-diff').textContent);
    } catch {
      return el('p', { class: 'quiet' }, 'The differences could not be read.');
    }
    diff = diff.diff ?? diff;
    const rows = [...(diff.kernels ?? []), ...(diff.functions ?? [])];
    const numbers = [...(diff.steps ?? []), ...(diff.totals ?? [])];
    const table = tables.create({
      caption: 'Time by name, from A to B. Click one to see its longest call in both.',
      rows,
      sort: 1,
      page: 25,
      search: (row) => `${row.name} ${row.short_name ?? ''}`,
      open: (row) => {
        find.set(row.short_name ?? row.name, false);
        for (const view of [first, second]) longest(view, row);
      },
      columns: [
        { title: 'name', key: (row) => row.short_name ?? row.name, name: true, tip: (row) => row.name },
        { title: 'change', key: (row) => Math.abs(row.total.change), number: true, show: (row) => el('span', { class: colour(row.total) }, changed(row.total)) },
        { title: 'A', key: (row) => row.total.a, number: true, show: (row) => format.time(row.total.a) },
        { title: 'B', key: (row) => row.total.b, number: true, show: (row) => format.time(row.total.b) },
        { title: 'calls', key: (row) => row.calls.change, number: true, show: (row) => (row.calls.change === 0 ? format.count(row.calls.a) : `${format.count(row.calls.a)} → ${format.count(row.calls.b)}`) },
      ],
    });
    return [
      el('div', { class: 'panel scroll-x', style: { marginBottom: '10px' } },
        el('h3', {}, 'From A to B'),
        el('table', { class: 'small', style: { width: '100%' } },
          el('thead', {}, el('tr', {}, ['', 'A', 'B', 'change'].map((title, index) => el('th', { scope: 'col', class: index > 0 ? 'number' : null }, title)))),
          el('tbody', {}, numbers.map((change) => el('tr', {},
            el('th', { scope: 'row', title: change.name }, WORDS[change.name] ?? change.name),
            ...[change.a, change.b].map((value) => el('td', { class: 'number' }, (unit[change.unit] ?? format.count)(value))),
            el('td', { class: ['number', colour(change)].filter(Boolean).join(' ') }, changed(change), part(change))))))),
      table.node,
    ];
  }

  // The longest span of a name that the page carries, selected without moving the view of the other.
  function longest(view, row) {
    const { timeline } = view.scene;
    let best = null;
    for (const one of timeline.rows) {
      for (let i = 0; i < one.kept; i++) {
        const name = timeline.names[one.name[i]];
        if ((name === row.name || timeline.short[one.label[i]] === row.short_name) && (!best || one.duration[i] > best.row.duration[best.i])) best = { row: one, i };
      }
    }
    if (best) {
      view.scrollTo(best.row);
      view.select(best);
    }
  }

  return { create };
})();
