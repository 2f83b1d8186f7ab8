// The timeline in words: for readers who do not see the picture, and for paper.

const words = (() => {
  // One line about what is in view.
  function ofView(report, view) {
    const { timeline } = report;
    const { from, to } = view.scene.view;
    const sum = range.totals(timeline, { from, to });
    const total = sum.count.reduce((all, value) => all + value, 0);
    const times = timeline.categories.map((category, index) => [category, sum.host[index] + sum.gpu[index]]).sort((a, b) => b[1] - a[1]);
    const most = times[0]?.[1] > 0 ? `; most time in ${times[0][0]}` : '';
    const step = (to - from) / 100;
    return `Showing ${format.moment(from, step)} to ${format.moment(to, step)} of ${format.time(view.end)}: ${format.plural(Math.round(total), 'operation', 'operations')}${most}.`;
  }

  function table(report, view) {
    const { timeline } = report;
    // The lanes as the report knows them, which may have come later than the view's.
    const list = view.scene.groups.flatMap((group) => group.lanes.map((lane) => ({ group, lane: timeline.lanes[lane.index] ?? lane })));
    const shown = list.slice(0, 300);
    const mostly = (lane) => {
      const total = lane.by_category.reduce((sum, value) => sum + value, 0);
      return timeline.categories
        .map((category, index) => [category, lane.by_category[index]])
        .filter(([, value]) => value > 0)
        .sort((a, b) => b[1] - a[1])
        .slice(0, 3)
        .map(([category, value]) => `${category} ${format.share(value / total)}`)
        .join(', ');
    };
    return [
      el(
        'div',
        { class: 'panel scroll-x' },
        el(
          'table',
          {},
          el('caption', {}, `Every lane of the timeline${list.length > shown.length ? `, the first ${format.count(shown.length)} of ${format.count(list.length)}` : ''}.`),
          el('thead', {}, el('tr', {}, ['lane', 'of', 'operations', 'busy', 'from', 'to', 'self time by category', 'longest operation'].map((title, index) => el('th', { scope: 'col', class: index > 1 && index < 6 ? 'number' : null }, title)))),
          el(
            'tbody',
            {},
            shown.map(({ group, lane }) =>
              el(
                'tr',
                {},
                el('th', { scope: 'row' }, lanes.fullLabel(lane)),
                el('td', {}, group.label),
                el('td', { class: 'number' }, format.count(lane.spans)),
                el('td', { class: 'number' }, format.time(lane.busy)),
                el('td', { class: 'number' }, format.time(lane.first)),
                el('td', { class: 'number' }, format.time(lane.last)),
                el('td', {}, mostly(lane)),
                el('td', { class: 'name' }, `${timeline.short[lane.longest[1]]}, ${format.time(lane.longest[0])}`),
              ),
            ),
          ),
        ),
      ),
    ];
  }

  // What was left out of the picture, said in full.
  function aggregation(timeline, served) {
    const lines = [];
    if (timeline.aggregated > 0) {
      lines.push(
        `${format.count(timeline.kept)} spans are drawn individually. The other ${format.count(timeline.aggregated)} are combined into cells of ${format.time(timeline.cell_ns)}: a cell shows the category that took most of its time, and its height shows how full it was.`,
      );
      if (!served) lines.push('To see each of them, use cutrace view, which needs the trace.');
    } else {
      lines.push(`All ${format.count(timeline.kept)} spans are drawn individually.`);
    }
    if (timeline.without_details > 0 && !served) lines.push(`${format.count(timeline.without_details)} of these spans have no arguments in this file, to keep it small.`);
    if (timeline.names_left_out > 0) lines.push('The trace has more names than fit on the page: some are shown as “(other names)”.');
    if (timeline.unplaced > 0) lines.push(`${format.count(timeline.unplaced)} spans are nested deeper than 64 levels and are drawn at the last one.`);
    if (timeline.lost_total > 0) lines.push(`${format.count(timeline.lost_total)} events were lost during recording; red marks on the axis show when.`);
    return lines;
  }

  return { ofView, table, aggregation };
})();
