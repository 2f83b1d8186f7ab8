// Questions to the local server of `cutrace view` (docs/VIEW-API.md). An exported file has none.

const serverOf = (() => {
  // Details of events that were asked for are kept, up to so many.
  const REMEMBERED = 500;
  const INSTANCES = 5000;

  // Reads answers of `api/spans` into rows like those that the page carries.
  function reader(timeline) {
    const intern = (name) => data.intern(timeline, name);

    // What a bar shows of a name: the short form of a kernel's is that name's own.
    function labelled(name, label) {
      if (timeline.short[name] === label) return name;
      const place = intern(label);
      return place;
    }

    function rowOf(row, names, texts) {
      const name = Uint32Array.from(row.name, (place) => names[place]);
      return {
        lane: row.lane,
        depth: row.depth,
        kept: row.start.length,
        start: Float64Array.from(row.start),
        duration: Float64Array.from(row.duration),
        inside: Float64Array.from(row.inside),
        name,
        label: Uint32Array.from(row.label ?? row.name, (place, i) => labelled(name[i], texts[place])),
        category: Uint8Array.from(row.category),
        layer: Uint8Array.from(row.layer),
        status: Float64Array.from(row.status, (code) => code ?? NaN),
        id: row.id,
        correlation: row.correlation,
        open: Uint8Array.from(row.open),
        ...cellsOf(row.cells, names),
      };
    }

    function cellsOf(cells, names) {
      if (!cells) return { cells: null, cellCount: 0 };
      return {
        cell_ns: cells.width_ns,
        cellCount: cells.count.length,
        cells: {
          first: cells.first,
          category: Uint8Array.from(cells.category, (category) => (category < 0 ? data.EMPTY : category)),
          fill: Uint8Array.from(cells.fill),
          name: Uint32Array.from(cells.name, (place) => names[place] ?? 0),
          count: Uint32Array.from(cells.count),
          // How many have that name: exactly if all do, otherwise at least so many.
          most: Uint32Array.from(cells.count, (count, i) => (cells.of_name[i] << 1) | (cells.of_name[i] === count ? 1 : 0)),
        },
      };
    }

    return (answer) => {
      const names = answer.names.map(intern);
      return { from: answer.from, to: answer.to, complete: answer.complete, rows: answer.rows.map((row) => rowOf(row, names, answer.names)) };
    };
  }

  // `heard(alive)`: whether the server answered.
  function create(report, trace, heard) {
    const { timeline } = report;
    const answered = reader(timeline);
    const events = new Map();

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

    // Spans of a stretch, as rows like those that the page carries.
    async function spansOf(from, to, wanted, limit, signal) {
      return answered(await ask('spans', { from: Math.floor(from), to: Math.ceil(to), lanes: wanted.join(','), limit }, signal));
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

    // `go(found)` with what is known so far; asks on until the trace is searched or there are enough. What is called so is found at
    // once, wherever it is; arguments and results take a look at everything.
    async function search(wanted, signal, go) {
      const seen = new Map();
      for (const where of ['names', 'all']) {
        let from = 0;
        while (from != null && seen.size < INSTANCES) {
          const answer = await ask('search', { q: wanted, in: where, from, max: 1000 }, signal);
          for (const match of answer.matches) seen.set(match.id, hit(match));
          const hits = [...seen.values()].sort((a, b) => a.start - b.start);
          const whole = where === 'all' && answer.next == null;
          go({ total: whole ? hits.length : Math.max(hits.length, answer.by_name ?? 0), hits, more: !whole, searched: answer.searched });
          from = answer.next;
        }
      }
    }

    // The flame graph of a stretch. A long one takes several answers, each with the share of it that was read: `go(share)`.
    async function flameOf(from, to, signal, go) {
      for (;;) {
        const answer = await ask('flame', { from: Math.floor(from), to: Math.ceil(to) }, signal);
        if (answer.names) return tree(answer);
        go(answer.share);
      }
    }

    function tree(answer) {
      const short = new Map(answer.short);
      const names = answer.names.map((name, index) => data.intern(timeline, name, short.get(index)));
      const nodes = [];
      answer.parent.forEach((parent, i) => {
        const amounts = (prefix) => ['time', 'allocated', 'moved'].map((weight) => Number(answer[`${prefix}${weight}`][i]));
        const node = { up: nodes[parent - 1] ?? null, name: names[answer.name[i]], category: answer.category[i], count: answer.count[i], total: amounts(''), own: amounts('own_'), children: [] };
        node.up?.children.push(node);
        nodes.push(node);
      });
      return { host: nodes[0], gpu: nodes[1] };
    }

    // The nearest of the same name, before or after; null if there is none.
    async function next(name, start, id, by) {
      const answer = await ask('next', { name, start: Math.round(start), id, to: by < 0 ? 'before' : 'after' });
      return answer.match && hit(answer.match);
    }

    return { timeline, spansOf, flameOf, event, search, next };
  }

  return { create, reader };
})();
