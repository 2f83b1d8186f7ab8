// Memory over time, what holds it, what leaks.

const memoryView = (() => {
  const COLORS = { device: 'var(--cat-memory)', host: 'var(--cat-transfer)', managed: 'var(--cat-kernel)', array: 'var(--cat-module)' };

  function create(report, go) {
    const memory = report.report?.memory;
    if (!memory || !memory.allocations) return el('p', { class: 'quiet' }, report.watched.calls ? 'This trace contains no allocations.' : 'CUDA calls were not traced, so allocations are unknown.');
    const end = Math.max(report.timeline.end_ns, 1);
    const at = go.relative;
    const spaces = (memory.spaces ?? []).filter((space) => space.curve?.peaks?.length > 0);
    const series = spaces.map((space) => ({ label: space.space ?? 'unknown', color: COLORS[space.space] ?? 'var(--cat-other)', bin: space.curve.bin_ns, values: space.curve.peaks, final: space.live_bytes }));
    const heldAt = holding(report, go);
    const label = spaces.map((space) => `${space.space ?? 'unknown'} memory reaches ${format.bytes(space.peak_bytes)} at ${format.time(at(space.peak_at_ns))} and ends at ${format.bytes(space.live_bytes)}`).join('; ');
    return [
      el('div', { class: 'panel' },
        el('div', { class: 'stack-labels' }, spaces.map((space) => el('button', { class: 'link', onclick: () => go.moment(at(space.peak_at_ns)) }, el('i', { class: 'swatch', style: { background: COLORS[space.space] ?? 'var(--cat-other)' } }), `${space.space ?? 'unknown'}: peak ${format.bytes(space.peak_bytes)}, ${format.bytes(space.live_bytes)} live at the end`))),
        charts.levels({ series, end, unit: format.bytes, title: `Memory in use over time: ${label}`, open: go.moment, hover: heldAt.show }),
        heldAt.node,
      ),
      el('div', { class: 'columns', style: { marginTop: '10px' } }, holders(leakTitle(memory.leaks), leakNote(memory.leaks, report), memory.leaks?.groups, go), holders('Live at the end', null, memory.holders, go)),
      badFrees(memory.bad_frees, go),
      memory.fragmentation && el('p', { class: 'quiet' }, `Fragmentation hint: at ${format.time(at(memory.fragmentation.at_ns))}, ${format.bytes(memory.fragmentation.live_bytes)} of live memory were spread over ${format.bytes(memory.fragmentation.block_held_bytes)} in blocks of ${format.bytes(memory.fragmentation.block_bytes)}.`),
    ];
  }

  // Who holds memory at the moment under the pointer, or at the peak.
  function holding(report, go) {
    const { allocations: list, short, stacks, frames, allocations_left_out: left } = report.timeline;
    const node = el('div', { id: 'memory-holders', class: 'scroll-x' });
    if (!list?.length) return { node, show() {} };

    function show(at) {
      const places = new Map();
      let total = 0;
      for (const one of list) {
        if (one.from > at || (one.to != null && one.to <= at)) continue;
        total += one.bytes;
        const key = `${one.name} ${one.stack ?? ''} ${one.space ?? ''}`;
        const place = places.get(key) ?? { ...one, sum: 0, count: 0 };
        place.sum += one.bytes;
        place.count += 1;
        places.set(key, place);
      }
      const rows = [...places.values()].sort((a, b) => b.sum - a.sum).slice(0, 8);
      dom.replace(node,
        el('h3', {}, `At ${format.moment(at, report.timeline.end_ns / 1000)}: ${format.bytes(total)} in ${format.plural([...places.values()].reduce((sum, place) => sum + place.count, 0), 'allocation', 'allocations')}`),
        left[0] > 0 && el('p', { class: 'hint' }, `${format.count(left[0])} small allocations, ${format.bytes(left[1])} and less each, are not in this list.`),
        el('table', { class: 'small' },
          el('thead', {}, el('tr', {}, ['bytes', 'count', 'space', 'held by', 'from'].map((head, index) => el('th', { scope: 'col', class: index < 2 ? 'number' : null }, head)))),
          el('tbody', {}, rows.map((row) => el('tr', {},
            el('td', { class: 'number' }, format.bytes(row.sum)),
            el('td', { class: 'number' }, format.count(row.count)),
            el('td', {}, row.space ?? '–'),
            el('td', { class: 'name' }, el('button', { class: 'link', onclick: () => go.operation(row.op, null, { at_ns: report.origin_ns + row.from }) }, short[row.name])),
            el('td', { class: 'name' }, row.stack == null ? '–' : frames[stacks[row.stack]?.[0]] ?? '–'))))));
    }
    const spaces = report.report.memory.spaces ?? [];
    const peak = spaces.reduce((best, space) => (space.peak_bytes > (best?.peak_bytes ?? -1) ? space : best), null);
    show(peak ? go.relative(peak.peak_at_ns) : 0);
    return { node, show };
  }

  // What a program still held at its end may have been meant to last.
  const leakTitle = (leaks) => (leaks?.judged === 'program_ended' && leaks.groups?.length > 0 ? 'Never freed' : 'Leaks');

  function leakNote(leaks, report) {
    const pool = (report.report.findings ?? []).some((finding) => finding.id === 'pool');
    if (pool && leaks?.judged === 'program_ended') return 'The program exited normally with this memory. Most of it belongs to a caching allocator, which keeps what the program freed: see the findings.';
    return { program_ended: 'The program exited normally: memory that it still held was never freed.', program_failed: 'The program failed: only memory that kept growing counts as a leak.', end_unknown: 'The trace does not say how the program ended: only memory that kept growing counts as a leak.', events_lost: 'Events were lost, perhaps including frees: only memory that kept growing counts as a leak.', calls_left_out: 'Calls were left out of the trace (-e, --min-duration), frees among them: leaks are unknown.' }[leaks?.judged];
  }

  function holders(title, note, list, go) {
    if (!list?.length) return title === 'Leaks' ? el('div', { class: 'panel' }, el('h3', {}, note?.startsWith('Calls were left out') ? 'Leaks: unknown' : 'No leak found'), el('p', { class: 'quiet' }, note ?? '')) : null;
    return el('div', { class: 'panel scroll-x' },
      el('h3', {}, title), note && el('p', { class: 'hint' }, note),
      el('table', { class: 'small' },
        el('thead', {}, el('tr', {}, ['bytes', 'count', 'allocated by', 'first'].map((head, index) => el('th', { scope: 'col', class: index < 2 || index === 3 ? 'number' : null }, head)))),
        el('tbody', {}, list.slice(0, 25).map((holder) => el('tr', {},
          el('td', { class: 'number' }, format.bytes(holder.bytes)),
          el('td', { class: 'number' }, format.count(holder.count)),
          el('td', { class: 'name' }, el('button', { class: 'link', onclick: () => go.operation(holder.op_ids?.[0], holder.place?.function, { at_ns: holder.first_at_ns }) }, holder.place?.function ?? 'unknown'), holder.place?.size_bytes != null && ` of ${format.bytes(holder.place.size_bytes)}`, holder.grows && el('span', { class: 'bad' }, ' grows'), (holder.place?.stack ?? []).length > 0 && el('details', {}, el('summary', {}, holder.place.stack[0]), el('ol', {}, holder.place.stack.map((frame) => el('li', {}, frame))))),
          el('td', { class: 'number' }, format.time(go.relative(holder.first_at_ns)))))),
      ),
    );
  }

  function badFrees(frees, go) {
    if (!frees?.bad?.length) return null;
    const say = { twice: 'freed twice', of_another_process: 'another process’s memory', wrong_function: 'freed by the wrong function', refused: 'refused by the driver' };
    return el('div', { class: 'panel', style: { marginTop: '10px' } }, el('h3', {}, `${format.plural(frees.bad_count, 'bad free', 'bad frees')}`),
      el('ul', {}, frees.bad.slice(0, 30).map((bad) => el('li', {}, el('button', { class: 'link', onclick: () => go.operation(bad.op_id, bad.function, { at_ns: bad.at_ns }) }, bad.function), `: ${say[bad.what] ?? bad.what}${bad.error ? ` (${bad.error})` : ''}`))));
  }

  return { create };
})();
