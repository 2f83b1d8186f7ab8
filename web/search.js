// One search for everything: names, arguments and results. Tables are filtered, the timeline and the flame graph dim the
// rest, and Enter walks from match to match.

const search = (() => {
  // Tables and the flame graph may come later: see `attach`.
  function create(report, view) {
    const box = byId('search');
    const status = byId('search-status');
    const { timeline } = report;
    let timer = 0;
    let found = { total: 0, hits: [], more: false };
    let at = -1;
    // Where the walk is: answers may come in between, first without it.
    let seen = null;
    let applied = null;
    let asking = null;
    const others = [];
    let tab = null;
    let flames = null;

    // What matches by its name, and what by its details.
    function matcher(timeline, wanted) {
      const names = new Set();
      timeline.names.forEach((name, index) => {
        if (name.toLowerCase().includes(wanted) || timeline.short[index].toLowerCase().includes(wanted)) names.add(index);
      });
      const texts = timeline.texts.having(JSON.stringify(wanted).slice(1, -1));
      const ids = new Set();
      return {
        names,
        // What the server found by arguments that the page does not carry.
        ids,
        span: (row, i) => ids.has(row.id[i]) || names.has(row.name[i]) || names.has(row.label[i]) || (row.text && texts[row.text[i]] === 1) || (row.detail?.[i] === 1 && names.has(row.amount[i])),
      };
    }

    // The flame graph's names are those of the report, which may have come later than the timeline.
    const namesIn = (of) => (applied ? matcher(of, applied).names : null);

    function attach(parts) {
      ({ tab, flames } = parts);
      tab.onmatch((hit) => go(found.hits.indexOf(hit)));
      if (applied) {
        flames.highlight(namesIn(flames.timeline));
        show();
      }
    }

    function apply() {
      clearTimeout(timer);
      const wanted = box.value.trim().toLowerCase();
      if (wanted === (applied ?? '')) return;
      applied = wanted;
      place.set({ q: wanted || null });
      const matches = wanted ? matcher(timeline, wanted) : null;
      view.scene.matches = matches;
      for (const other of others) {
        other.scene.matches = wanted ? matcher(other.scene.timeline, wanted) : null;
        other.redraw();
      }
      at = -1;
      seen = null;
      found = matches ? collect(matches) : { total: 0, hits: [], more: false };
      flames?.highlight(namesIn(flames.timeline));
      view.redraw();
      show();
      if (report.server && wanted) ask(wanted);
    }

    // Matching spans by time, calls that launch a matching kernel among them.
    function collect(matches) {
      const hits = [];
      for (const row of timeline.rows) {
        for (let i = 0; i < row.kept; i++) {
          if (matches.span(row, i)) hits.push({ ref: { row, i }, id: row.id[i], start: row.start[i], duration: row.duration[i], lane: row.lane, name: timeline.short[row.label[i]], category: timeline.categories[row.category[i]] });
        }
      }
      hits.sort((a, b) => a.start - b.start);
      return { total: hits.length, hits, more: false };
    }

    // The server knows all events, not only those that the page carries.
    function ask(wanted) {
      asking?.abort();
      asking = new AbortController();
      const arrived = (answer) => {
        if (wanted !== applied) return;
        found = answer;
        for (const hit of answer.hits) view.scene.matches?.ids.add(hit.id);
        view.redraw();
        at = seen == null ? -1 : answer.hits.findIndex((hit) => hit.id === seen);
        show();
      };
      report.server.search(wanted, asking.signal, arrived).catch(() => {});
    }

    function show() {
      const total = `${found.more ? 'at least ' : ''}${format.count(found.total)}`;
      const text = !applied ? '' : found.total === 0 ? 'no match' : at < 0 ? `${total} ${found.total === 1 && !found.more ? 'match' : 'matches'}` : `match ${format.count(at + 1)} of ${total}`;
      dom.replace(status, text);
      status.hidden = text === '';
      for (const id of ['search-back', 'search-on']) byId(id).hidden = found.hits.length === 0;
      tab?.filter(applied ?? '', new Set(found.hits.map((hit) => hit.name)), found);
    }

    function go(index) {
      const hit = found.hits[index];
      if (!hit) return;
      at = index;
      seen = hit.id;
      byId('timeline').scrollIntoView({ block: 'start' });
      if (hit.ref) view.reveal(hit.ref);
      else view.revealHit(hit);
      show();
    }

    function next(by) {
      if (found.hits.length > 0) go((at + by + found.hits.length + (at < 0 && by < 0 ? 1 : 0)) % found.hits.length);
    }

    function set(text, jump) {
      box.value = text;
      apply();
      // The longest is the one worth a look first.
      if (jump && found.hits.length > 0) go(found.hits.reduce((best, hit, index) => (hit.duration > found.hits[best].duration ? index : best), 0));
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
    byId('search-back').addEventListener('click', () => next(-1));
    byId('search-on').addEventListener('click', () => next(1));
    if (place.get('q')) {
      box.value = place.get('q');
      apply();
    }
    return { set, next, focus: () => box.focus(), attach, also: (other) => others.push(other) };
  }

  return { create };
})();
