// Sortable, searchable tables. A column: { title, key(row), show(row), number, name, first }.

const tables = (() => {
  const PAGE = 60;

  function create({ caption, columns, rows, sort, ascending, open, search, page = PAGE }) {
    const body = el('tbody');
    const more = el('p', { class: 'more' });
    const note = el('span', { role: 'status' });
    let by = columns[sort ?? 0];
    let descending = ascending ? false : (by.number ?? false);
    let shown = page;
    let wanted = '';
    let names = null;
    let filtered = rows;

    const heads = columns.map((column) => {
      const button = el('button', { type: 'button', onclick: () => sortBy(column) }, column.title);
      return el('th', { scope: 'col', class: column.number ? 'number' : null, title: column.hint }, button);
    });
    const table = el('table', {}, el('caption', {}, caption, ' ', note), el('thead', {}, el('tr', {}, heads)), body);

    function sortBy(column) {
      if (by === column) descending = !descending;
      else {
        by = column;
        descending = column.number ?? false;
      }
      update();
    }

    function compare(a, b) {
      const [x, y] = [by.key(a), by.key(b)];
      const order = typeof x === 'string' || typeof y === 'string' ? String(x ?? '').localeCompare(String(y ?? '')) : (x ?? -Infinity) - (y ?? -Infinity);
      return descending ? -order : order;
    }

    function update() {
      columns.forEach((column, index) => {
        if (column === by) heads[index].setAttribute('aria-sort', descending ? 'descending' : 'ascending');
        else heads[index].removeAttribute('aria-sort');
      });
      filtered = wanted ? rows.filter((row) => search(row).toLowerCase().includes(wanted) || names?.has(row.short_name ?? row.name)) : rows;
      filtered = [...filtered].sort(compare);
      dom.replace(note, wanted ? `${format.count(filtered.length)} of ${format.count(rows.length)} match.` : '');
      draw();
    }

    function draw() {
      dom.replace(body, filtered.slice(0, shown).map(line));
      if (filtered.length === 0) {
        dom.replace(body, el('tr', {}, el('td', { colspan: columns.length, class: 'quiet' }, rows.length === 0 ? 'None in this trace.' : 'Nothing matches the search.')));
      }
      const left = filtered.length - shown;
      dom.replace(
        more,
        left > 0 && el('button', { type: 'button', onclick: () => show(PAGE * 5) }, left > PAGE * 5 ? `Show ${format.count(PAGE * 5)} more of ${format.count(left)}` : `Show ${format.count(left)} more`),
      );
    }

    function show(by) {
      shown += by;
      draw();
    }

    function line(row) {
      const cells = columns.map((column, index) => {
        const content = column.show ? column.show(row) : column.key(row);
        const attributes = { class: column.number ? 'number' : column.name ? 'name' : null, title: column.tip?.(row) };
        if (index === 0) {
          const inner = open ? el('button', { class: 'link', onclick: () => open(row) }, content) : content;
          return el('th', { scope: 'row', ...attributes }, column.mark?.(row), inner);
        }
        return el('td', attributes, content);
      });
      const tr = el('tr', {}, cells);
      return open ? dom.clickable(tr, () => open(row)) : tr;
    }

    // By a text, or by the names of what was found by its arguments.
    function filter(text, found) {
      wanted = text.trim().toLowerCase();
      names = found;
      shown = page;
      update();
    }

    // Other rows.
    function set(list) {
      rows = list;
      shown = page;
      update();
    }

    update();
    return { node: el('div', { class: 'panel scroll-x' }, table, more), filter, set, rows: () => rows };
  }

  const swatch = (category) => el('i', { class: 'swatch', title: category, style: { background: `var(--cat-${category})` } });

  // A number with its part of the whole drawn beside it.
  function bar(text, part) {
    const width = Number.isFinite(part) ? Math.max(0, Math.min(1, part)) * 100 : 0;
    return [text, el('span', { class: 'share', 'aria-hidden': 'true' }, el('i', { style: { width: `${width}%` } }))];
  }

  return { create, swatch, bar };
})();
