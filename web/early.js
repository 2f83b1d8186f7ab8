// The page of a trace that `cutrace view` is still reading: how far it is, then the timeline from the index alone, then the
// report when it is there.

const early = (() => {
  const EVERY = 250; // milliseconds between two questions

  // Until the index is there the page has nothing to show but how far the reading is.
  async function wait() {
    const progress = bar('Reading the trace');
    dom.replace(byId('notices'), progress.node);
    hide(true);
    await until((status) => status.stage !== 'index', progress);
    location.reload();
  }

  // A report with a timeline, and nothing else yet.
  function begin() {
    const known = JSON.parse(byId('data-early').textContent);
    const { spans: answer, lanes: list, totals, server, meta, summary, origin_ns, ...rest } = known;
    const timeline = {
      ...rest,
      lanes: list.map((lane) => ({ ...lane, spans: 0, failed: 0, busy: 0, first: 0, last: 0, longest: [0, 0], by_category: rest.categories.map(() => 0) })),
      names: [],
      short: [],
      cell_ns: 1,
      lost: [],
      lost_total: 0,
      limits: {},
      frames: [],
      stacks: [],
      texts: { get: () => '{}', having: () => [] },
    };
    const offCpu = rest.categories.indexOf('off-cpu');
    const { rows } = serverOf.reader(timeline)(answer);
    const count = new Map(totals.map(([lane, depth, total]) => [`${lane} ${depth}`, total]));
    rows.forEach((row, index) => {
      Object.assign(row, { index, total: count.get(`${row.lane} ${row.depth}`) ?? row.kept });
      if (row.cell_ns) timeline.cell_ns = row.cell_ns;
      measure(timeline.lanes[row.lane], row, offCpu);
    });
    data.stack(timeline, rows);
    return { meta, summary, origin_ns, timeline, served: server, server: null, report: null, early: true };
  }

  // About as much of a lane as sorting and the legend need.
  function measure(lane, row, offCpu) {
    lane.spans += row.total;
    const add = (category, time) => {
      lane.by_category[category] += time;
      if (row.depth === 0 && category !== offCpu) lane.busy += time;
    };
    if (row.cells) row.cells.category.forEach((category, i) => category !== data.EMPTY && add(category, (row.cells.fill[i] / 255) * row.cell_ns));
    else row.duration.forEach((time, i) => add(row.category[i], time));
  }

  // The report, once it is made; null if it never will be.
  async function rest() {
    const progress = bar('The timeline is ready. Reading the trace again for findings and tables');
    byId('notices').append(progress.node);
    hide(true);
    await until((status) => status.stage === 'ready', progress);
    const answer = await (await fetch('api/report')).json();
    const report = await data.unpack(answer.head, answer.timeline);
    progress.node.remove();
    hide(false);
    return report;
  }

  // Sections that have nothing in them yet; the timeline stays.
  function hide(hidden) {
    const pending = ['overview', 'findings', 'tables', 'memory', 'idle', 'histograms', 'flame', 'environment'];
    for (const id of pending) byId(id).hidden = hidden;
    byId('timeline').hidden = hidden && byId('data-early') == null;
    for (const id of ['timeline-text', 'phases']) byId(id).hidden = hidden;
  }

  function bar(text) {
    const share = el('progress', { max: 1, value: 0, 'aria-label': text });
    const number = el('span', { class: 'quiet' });
    const node = el('p', { class: 'notice', role: 'status' }, `${text} … `, share, ' ', number);
    return {
      node,
      set(value) {
        share.value = value;
        dom.replace(number, format.share(value));
      },
      fail(why) {
        node.className = 'notice bad';
        node.setAttribute('role', 'alert');
        dom.replace(node, why);
      },
    };
  }

  // Asks how far it is until `enough` says so.
  async function until(enough, progress) {
    for (;;) {
      let status;
      try {
        status = await (await fetch('api/status')).json();
      } catch {
        progress.fail('cutrace view has ended. Start it again to see this trace.');
        return new Promise(() => {});
      }
      if (status.stage === 'failed') {
        progress.fail(`The trace could not be read: ${status.error}`);
        return new Promise(() => {});
      }
      if (enough(status)) return status;
      progress.set(status.share);
      await new Promise((next) => setTimeout(next, EVERY));
    }
  }

  return { wait, begin, rest };
})();
