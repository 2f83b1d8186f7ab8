// Questions about spans and cells: which lie where, what they are called, what belongs to them.

const spans = (() => {
  // The first span of the row that ends after `time`. Spans of one row do not overlap.
  function firstAfter(row, time) {
    let low = 0;
    let high = row.kept;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.start[middle] > time) high = middle;
      else low = middle + 1;
    }
    while (low > 0 && row.start[low - 1] + row.duration[low - 1] >= time) low -= 1;
    return low;
  }

  // The span of the row at a time, give or take `slack`.
  function at(row, time, slack) {
    let best = -1;
    let distance = Infinity;
    for (let i = firstAfter(row, time - slack); i < row.kept && row.start[i] <= time + slack; i++) {
      const end = row.start[i] + row.duration[i];
      const off = time < row.start[i] ? row.start[i] - time : time > end ? time - end : 0;
      // Of equally near ones the longest: it is the one that is seen.
      if (off < distance || (off === distance && row.duration[i] > row.duration[best])) {
        best = i;
        distance = off;
      }
    }
    return best;
  }

  function cellAt(row, time, width) {
    if (!row.cells) return -1;
    const cell = Math.floor(time / width) - row.cells.first;
    if (cell < 0 || cell >= row.cellCount || row.cells.category[cell] === data.EMPTY) return -1;
    return cell;
  }

  // Whether a file that keeps only some spans keeps all of this stretch.
  const allKept = ({ whole }, from, to) => whole != null && whole[0] <= from && to <= whole[1];

  // Where each id, and each correlation, is found. Built when first asked for.
  function finder(timeline) {
    let byId = null;
    let byCorrelation = null;

    function build() {
      byId = new Map();
      byCorrelation = new Map();
      for (const row of timeline.rows) {
        for (let i = 0; i < row.kept; i++) {
          byId.set(row.id[i], { row, i });
          const key = row.correlation[i];
          if (key === 0) continue;
          if (!byCorrelation.has(key)) byCorrelation.set(key, []);
          byCorrelation.get(key).push({ row, i });
        }
      }
    }

    // GPU work of the calls inside a call: of the driver's call that a runtime's makes.
    function workInside({ row, i }) {
      const gpu = timeline.layers.indexOf('gpu');
      const end = row.start[i] + row.duration[i];
      const work = [];
      if (row.layer[i] === gpu) return work;
      for (const inner of timeline.lanes[row.lane].rows.filter((other) => other.depth > row.depth)) {
        for (let j = firstAfter(inner, row.start[i]); j < inner.kept && inner.start[j] <= end && work.length < 50; j++) {
          const correlation = inner.start[j] + inner.duration[j] <= end ? inner.correlation[j] : 0;
          if (correlation !== 0) work.push(...(byCorrelation.get(correlation) ?? []).filter((ref) => ref.row.layer[ref.i] === gpu));
        }
      }
      return work;
    }

    return {
      id(id) {
        if (!byId) build();
        return byId.get(id) ?? null;
      },
      // The others of its correlation, and the call whose id the correlation is.
      linked({ row, i }) {
        if (!byId) build();
        const found = [];
        const add = (ref) => {
          const same = ref && ref.row === row && ref.i === i;
          if (ref && !same && !found.some((other) => other.row === ref.row && other.i === ref.i)) found.push(ref);
        };
        const correlation = row.correlation[i];
        if (correlation !== 0) (byCorrelation.get(correlation) ?? []).slice(0, 50).forEach(add);
        if (found.length === 0) workInside({ row, i }).slice(0, 50).forEach(add);
        return found;
      },
    };
  }

  // The spans that enclose a span, outermost first. `shown`: a row as it is drawn.
  function enclosing(timeline, { row, i }, shown) {
    const chain = [];
    const lane = timeline.lanes[row.lane];
    const start = row.start[i];
    const end = start + row.duration[i];
    for (const whole of lane.rows) {
      if (whole.depth >= row.depth) break;
      const above = shown(whole);
      const j = at(above, start, 0);
      if (j >= 0 && above.start[j] <= start && above.start[j] + above.duration[j] >= end) chain.push({ row: above, i: j });
    }
    return chain;
  }

  return { firstAfter, at, cellAt, allKept, finder, enclosing };
})();
