// Detail on demand: the spans of the stretch and the lanes in sight, asked of the server when the page's own are summed up.

const finer = (() => {
  const WAIT = 30; // milliseconds without a change before the server is asked again
  const REMEMBERED = 24; // answers
  const LIMIT = 20000; // spans in an answer
  const COARSE = 2; // pixels of a cell of the page's own that are fine enough

  function create(report, view) {
    const { timeline } = report;
    const { scene } = view;
    const answers = [];
    let current = new Map();
    let byId = null;
    let timer = 0;
    let asking = null;
    let moved = -Infinity; // when the view changed last
    let awaited = null;

    scene.shown = (row) => current.get(row) ?? row;
    // For tests and measurements: whether what is in sight is as fine as it gets.
    const state = (text) => (document.documentElement.dataset.detail = text);

    // Lanes in sight that the page does not have whole.
    function wanted() {
      const list = [];
      const bottom = scene.scroll + scene.height;
      for (let at = lanes.firstAt(scene.layout.items, scene.scroll); at < scene.layout.items.length; at++) {
        const { lane, y } = scene.layout.items[at];
        if (y > bottom) break;
        if (lane && lane.rows.some((row) => row.kept < row.total)) list.push(lane.index);
      }
      return list;
    }

    const isCoarse = () => timeline.cell_ns * scale.of(scene) > COARSE || awaited != null;

    // An answer of much more than is in sight may have summed up what now has room.
    function fits(answer) {
      const { from, to } = scene.view;
      return answer.from <= from && answer.to >= to && (answer.complete || answer.to - answer.from <= 2.2 * (to - from));
    }

    // Shows what is known for the stretch in sight; the lanes of which nothing fine enough is known.
    function apply() {
      const list = wanted();
      const missing = [];
      current = new Map();
      byId = null;
      if (!isCoarse()) return [];
      for (const index of list) {
        const best = answers.filter((answer) => answer.lanes.has(index) && fits(answer)).sort((a, b) => a.to - a.from - (b.to - b.from))[0];
        if (!best) {
          missing.push(index);
          continue;
        }
        for (const row of timeline.lanes[index].rows) current.set(row, best.rowOf(row));
      }
      return missing;
    }

    function changed() {
      const missing = apply();
      clearTimeout(timer);
      if (missing.length === 0) {
        asking?.abort();
        asking = null;
        state('shown');
        arrive();
        return;
      }
      state('waiting');
      // A single step is asked for at once, of a movement only where it rests.
      const rested = !asking && performance.now() - moved > WAIT;
      moved = performance.now();
      if (rested) ask(missing);
      else timer = setTimeout(() => ask(missing), WAIT);
    }

    async function ask(missing) {
      asking?.abort();
      const mine = (asking = new AbortController());
      const { from, to } = scene.view;
      const beside = (to - from) * 0.5;
      try {
        const answer = await report.server.spansOf(Math.max(0, from - beside), Math.min(view.end + 1, to + beside), missing, LIMIT, mine.signal);
        remember(answer, missing);
      } catch {
        // Out of date, or the server is gone, which is said elsewhere.
        if (asking === mine) state('missing');
        return;
      }
      if (asking !== mine) return;
      asking = null;
      apply();
      view.drawNow();
      state('shown');
      arrive();
    }

    function remember(answer, asked) {
      const rows = new Map();
      for (const row of answer.rows) {
        const own = timeline.lanes[row.lane]?.rows.find((candidate) => candidate.depth === row.depth);
        if (own) rows.set(own, Object.assign(row, { index: own.index, place: own.place, total: own.total, whole: own }));
      }
      const empty = (row) => ({ ...row, kept: 0, cells: null, cellCount: 0, whole: row });
      answers.unshift({ from: answer.from, to: answer.to, complete: answer.complete, lanes: new Set(asked), rowOf: (row) => rows.get(row) ?? empty(row) });
      answers.length = Math.min(answers.length, REMEMBERED);
    }

    // The span with this id, among those in sight.
    function find(id) {
      if (!byId) {
        byId = new Map();
        for (const row of current.values()) for (let i = 0; i < row.kept; i++) byId.set(row.id[i], { row, i });
      }
      return byId.get(id) ?? null;
    }

    // Selects what was looked for, once it is there.
    function arrive() {
      if (awaited == null) return;
      const ref = find(awaited) ?? view.find.id(awaited);
      if (!ref) return;
      awaited = null;
      view.scrollTo(ref.row);
      view.select(ref);
    }

    // hit: { id, start, duration, lane, depth }
    view.revealHit = (hit) => {
      const known = view.find.id(hit.id);
      if (known) {
        view.reveal(known);
        return;
      }
      awaited = hit.id;
      const row = timeline.lanes[hit.lane]?.rows.find((candidate) => candidate.depth === hit.depth);
      if (row) view.scrollTo(row);
      const span = Math.max(hit.duration * 1.6, 100);
      const middle = hit.start + hit.duration / 2;
      view.show(middle - span / 2, middle + span / 2);
    };
    view.revealId = (id) => {
      const ref = view.find.id(id) ?? find(id);
      if (ref) view.reveal(ref);
      else report.server.event(id).then((known) => view.revealHit({ ...known.place, id }), () => {});
      return true;
    };
    view.finer = { find };
    view.onchange(changed);
    view.scroller.addEventListener('scroll', changed);
    changed();
  }

  return { create };
})();
