// Questions to the local server of `cutrace view` (docs/VIEW-API.md). An exported file has none.

const serverOf = (() => {
  // Details of events that were asked for are kept, up to so many.
  const REMEMBERED = 500;
  const INSTANCES = 5000;

  // `heard(alive)`: whether the server answered.
  function create(report, trace, heard) {
    const { timeline } = report;
    const events = new Map();
    let places = null;

    async function ask(path, parameters, signal) {
      let answer;
      try {
        answer = await fetch(`api/${path}?${new URLSearchParams({ trace, ...parameters })}`, { signal });
      } catch (error) {
        if (error.name !== 'AbortError') heard(false);
        throw error;
      }
      heard(true);
      const value = await answer.json();
      if (!answer.ok) throw new Error(value.error ?? `status ${answer.status}`);
      return value;
    }

    // A name's place among the page's names, which grow.
    function intern(name) {
      if (!places) {
        places = new Map();
        timeline.names.forEach((known, index) => places.set(known, index));
      }
      let index = places.get(name);
      if (index == null) {
        index = timeline.names.push(name) - 1;
        timeline.short.push(name);
        places.set(name, index);
      }
      return index;
    }

    // What a bar shows of a name: the short form of a kernel's is that name's own.
    function labelled(name, label) {
      if (timeline.short[name] === label) return name;
      const place = intern(label);
      return place;
    }

    // Spans of a stretch, as rows like those that the page carries.
    async function spansOf(from, to, wanted, limit, signal) {
      const answer = await ask('spans', { from: Math.floor(from), to: Math.ceil(to), lanes: wanted.join(','), limit }, signal);
      const names = answer.names.map(intern);
      const rows = answer.rows.map((row) => {
        const name = Uint32Array.from(row.name, (place) => names[place]);
        return {
          lane: row.lane,
          depth: row.depth,
          kept: row.start.length,
          start: Float64Array.from(row.start),
          duration: Float64Array.from(row.duration),
          inside: Float64Array.from(row.inside),
          name,
          label: Uint32Array.from(row.label ?? row.name, (place, i) => labelled(name[i], answer.names[place])),
          category: Uint8Array.from(row.category),
          layer: Uint8Array.from(row.layer),
          status: Float64Array.from(row.status, (code) => code ?? NaN),
          id: row.id,
          correlation: row.correlation,
          open: Uint8Array.from(row.open),
          ...cellsOf(row.cells, names),
        };
      });
      return { from: answer.from, to: answer.to, complete: answer.complete, rows };
    }

    function cellsOf(cells, names) {
      if (!cells) return { cells: null, cellCount: 0 };
      return {
        cell_ns: cells.width_ns,
        cellCount: cells.count.length,
        cells: {
          first: cells.first,
          category: Uint8Array.from(cells.category, (category) => category ?? data.EMPTY),
          fill: Uint8Array.from(cells.fill),
          name: Uint32Array.from(cells.name, (place) => names[place] ?? 0),
          count: Uint32Array.from(cells.count),
          // All of one name, or not counted.
          most: Uint32Array.from(cells.count, (count, i) => (cells.names[i] === 1 ? (count << 1) | 1 : 0)),
        },
      };
    }

    async function event(id) {
      const key = String(id);
      if (events.has(key)) return events.get(key);
      const answer = eventOf.served(await ask('event', { id: key }));
      if (events.size >= REMEMBERED) events.delete(events.keys().next().value);
      events.set(key, answer);
      return answer;
    }

    const hit = (match) => ({ id: match.id, start: match.start_ns, duration: match.duration_ns ?? 0, lane: match.lane, depth: match.depth, name: match.label ?? match.name });

    // `go(found)` with what is known so far; asks on until the trace is searched or there are enough.
    async function search(wanted, signal, go) {
      const hits = [];
      let from = 0;
      for (;;) {
        const answer = await ask('search', { q: wanted, from, max: 1000 }, signal);
        hits.push(...answer.matches.map(hit));
        const whole = answer.next == null;
        const total = answer.total ?? Math.max(answer.at_least ?? 0, hits.length);
        go({ total: whole ? Math.max(total, hits.length) : total, hits, more: !whole && answer.total == null, searched: answer.searched });
        if (whole || hits.length >= INSTANCES) return;
        from = answer.next;
      }
    }

    async function instances(name) {
      const list = [];
      let from = 0;
      while (from != null && list.length < INSTANCES) {
        const answer = await ask('instances', { name, by: 'time', max: 1000, from });
        list.push(...answer.matches.map(hit));
        from = answer.next;
      }
      return list;
    }

    return { spansOf, event, search, instances };
  }

  return { create };
})();
