// Drawing the spans and cells of a row. Where a pixel holds more than one span it shows what dominates it.

const bars = (() => {
  // Spans too narrow for themselves, gathered a pixel at a time.
  class Column {
    constructor(context, categories, alphaOf) {
      this.context = context;
      this.categories = categories;
      this.alphaOf = alphaOf;
      this.weight = new Float64Array(categories.length);
      this.x = -1;
    }

    begin(y, height) {
      this.flush();
      this.y = y;
      this.height = height;
    }

    add(x, category, weight, name, row, i) {
      if (x !== this.x) {
        this.flush();
        this.x = x;
      }
      this.weight[category] += weight;
      this.name = name;
      this.row = row;
      this.i = i;
    }

    flush() {
      if (this.x < 0) return;
      let best = 0;
      let total = 0;
      for (let i = 0; i < this.weight.length; i++) {
        total += this.weight[i];
        if (this.weight[i] > this.weight[best]) best = i;
      }
      const { context } = this;
      context.globalAlpha = (0.42 + 0.58 * Math.min(1, total)) * this.alphaOf(best, this.name, this.row, this.i);
      context.fillStyle = palette.colors.of(this.categories[best]);
      context.fillRect(this.x, this.y, 1, this.height);
      context.globalAlpha = 1;
      this.weight.fill(0);
      this.x = -1;
    }
  }

  // What the search or the legend does not mean is dimmed.
  function alpha(scene) {
    const { matches, only } = scene;
    if (!matches && only == null) return () => 1;
    return (category, name, row, i) => {
      const out = (matches && name != null && !(row ? matches.span(row, i) : matches.names.has(name))) || (only != null && category !== only);
      return out ? 0.16 : 1;
    };
  }

  function exact(context, scene, row, y, height, column) {
    const { from, to } = scene.view;
    const k = scale.of(scene);
    const { categories, short } = scene.timeline;
    const colors = palette.colors;
    const alphaOf = column.alphaOf;
    const label = new Labels(context, short);
    for (let i = spans.firstAfter(row, from); i < row.kept && row.start[i] <= to; i++) {
      const x0 = scale.GUTTER + (row.start[i] - from) * k;
      const w = row.duration[i] * k;
      const category = row.category[i];
      if (w < 1.5) {
        // Where there are cells, they have counted it.
        if (!row.cells || spans.allKept(scene.timeline, row.start[i], row.start[i])) column.add(Math.max(scale.GUTTER, Math.floor(x0)), category, Math.max(w, 0.05), row.label[i], row, i);
        continue;
      }
      column.flush();
      const left = Math.max(x0, scale.GUTTER - 2);
      const right = Math.min(x0 + w, scene.width + 2);
      const a = alphaOf(category, row.label[i], row, i);
      context.globalAlpha = a;
      context.fillStyle = colors.of(categories[category]);
      context.fillRect(left, y, Math.max(1, right - left - 0.6), height);
      if (row.status[i] === row.status[i] && row.status[i] !== 0) {
        context.fillStyle = colors.bad;
        context.fillRect(left, y + height - 3, Math.max(1, right - left - 0.6), 3);
      }
      if (row.open[i]) {
        context.fillStyle = colors.panel;
        for (let x = right - 16; x < right; x += 4) context.fillRect(x, y, 1.5, height);
      }
      if (right - left > 26 && a === 1) {
        context.fillStyle = colors.on(categories[category]);
        label.put(row, i, left + 4, y + height / 2 + 0.5, right - left - 8);
      }
      context.globalAlpha = 1;
    }
  }

  function cells(context, scene, row, y, height, column) {
    const { from, to } = scene.view;
    const k = scale.of(scene);
    const width = row.cell_ns ?? scene.timeline.cell_ns;
    const { categories } = scene.timeline;
    const colors = palette.colors;
    const own = row.cells;
    const w = width * k;
    const first = Math.max(0, Math.floor(from / width) - own.first);
    const last = Math.min(row.cellCount - 1, Math.ceil(to / width) - own.first);
    for (let i = first; i <= last; i++) {
      const category = own.category[i];
      if (category === data.EMPTY || spans.allKept(scene.timeline, (own.first + i) * width, (own.first + i + 1) * width)) continue;
      const x = scale.GUTTER + ((own.first + i) * width - from) * k;
      const filled = own.fill[i] / 255;
      if (w < 1.5) {
        column.add(Math.max(scale.GUTTER, Math.floor(x)), category, Math.max(filled * w, 0.05), own.name[i]);
        continue;
      }
      column.flush();
      const left = Math.max(x, scale.GUTTER);
      const right = Math.min(x + w, scene.width);
      // As high as it is full, so that a summary never looks like a span.
      const tall = Math.max(2, height * filled);
      context.globalAlpha = 0.5 * column.alphaOf(category, own.name[i]);
      context.fillStyle = colors.of(categories[category]);
      context.fillRect(left, y + height - tall, Math.max(1, right - left - 0.6), tall);
      context.globalAlpha = 1;
      if (w > 90) {
        context.fillStyle = colors.ink;
        context.font = scale.MONO;
        const text = format.visible(details.ofCell(scene.timeline, own, i));
        context.fillText(scale.clipped(context, text, right - left - 8), left + 4, y + height / 2 + 0.5);
      }
    }
  }

  // Names inside spans, with what they launched or moved where there is room.
  class Labels {
    constructor(context, names) {
      this.context = context;
      this.names = names;
      context.font = scale.MONO;
      context.textAlign = 'left';
      this.character = context.measureText('m').width;
    }

    put(row, i, x, y, room) {
      const letters = Math.floor(room / this.character);
      if (letters < 2) return;
      let text = format.visible(format.short(this.names[row.label[i]], letters));
      if (row.detail?.[i] === 1) {
        const kernel = ` → ${format.visible(format.short(this.names[row.amount[i]], letters - text.length - 3))}`;
        if (text.length + 8 < letters) text += kernel;
      } else if (row.detail?.[i] > 1) {
        const size = ` ${format.bytes(row.amount[i])}`;
        if (text.length + size.length <= letters) text += size;
      }
      this.context.font = scale.MONO;
      this.context.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, x, y);
    }
  }

  function row(context, scene, shown, y, height, column) {
    column.begin(y, height);
    if (shown.cells) cells(context, scene, shown, y, height, column);
    exact(context, scene, shown, y, height, column);
    column.flush();
  }

  return { Column, alpha, row };
})();
