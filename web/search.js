// One search for everything: tables are filtered, the timeline and the flame graph dim the rest.

const search = (() => {
  function create(report, view, { tab, flames }) {
    const box = byId('search');
    const { names, short } = report.timeline;
    let timer = 0;
    let hits = [];
    let at = -1;
    let applied = null;

    function apply() {
      clearTimeout(timer);
      const wanted = box.value.trim().toLowerCase();
      if (wanted === (applied ?? '')) return;
      applied = wanted;
      place.set({ q: wanted || null });
      const matches = wanted ? new Set(names.flatMap((name, index) => (name.toLowerCase().includes(wanted) || short[index].toLowerCase().includes(wanted) ? [index] : []))) : null;
      view.scene.matches = matches;
      hits = matches ? collect(matches) : [];
      at = -1;
      tab.filter(wanted);
      flames.highlight(matches);
      view.redraw();
    }

    // Matching spans by time, calls that launch a matching kernel among them.
    function collect(matches) {
      const found = [];
      for (const row of report.timeline.rows) {
        for (let i = 0; i < row.kept; i++) {
          if (matches.has(row.name[i]) || (row.detail[i] === 1 && matches.has(row.amount[i]))) found.push({ row, i });
        }
      }
      return found.sort((a, b) => a.row.start[a.i] - b.row.start[b.i]);
    }

    function next(by) {
      if (hits.length === 0) return;
      at = (at + by + hits.length) % hits.length;
      byId('timeline').scrollIntoView({ block: 'start' });
      view.reveal(hits[at]);
    }

    function set(text, jump) {
      box.value = text;
      apply();
      if (!jump || hits.length === 0) return;
      // The longest is the one worth a look first.
      at = hits.reduce((best, hit, index) => (hit.row.duration[hit.i] > hits[best].row.duration[hits[best].i] ? index : best), 0);
      byId('timeline').scrollIntoView({ block: 'start' });
      view.reveal(hits[at]);
    }

    box.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(apply, 120);
    });
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        apply();
        next(event.shiftKey ? -1 : 1);
      } else if (event.key === 'Escape') {
        box.value = '';
        apply();
        box.blur();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    if (place.get('q')) {
      box.value = place.get('q');
      apply();
    }
    return { set, next, focus: () => box.focus() };
  }

  return { create };
})();
