// Drawing the timeline. Where a pixel holds more than one span it shows what dominates it.

const drawing = (() => {
  const GUTTER = 178;
  const AXIS = 26;
  const FONT = '11px ui-sans-serif, system-ui, sans-serif';
  const MONO = '11px ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace';

  // The steps of an axis: 1, 2 or 5 times a power of ten.
  function step(span, wanted) {
    const rough = span / Math.max(wanted, 1);
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
    const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough) ?? 10;
    return Math.max(1, factor * power);
  }

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

    add(x, category, weight, name) {
      if (x !== this.x) {
        this.flush();
        this.x = x;
      }
      this.weight[category] += weight;
      this.name = name;
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
      context.globalAlpha = (0.42 + 0.58 * Math.min(1, total)) * this.alphaOf(best, this.name);
      context.fillStyle = palette.colors.of(this.categories[best]);
      context.fillRect(this.x, this.y, 1, this.height);
      context.globalAlpha = 1;
      this.weight.fill(0);
      this.x = -1;
    }
  }

  // scene: { timeline, layout, groups, view, width, height, scroll, selected, range, matches, only, hover, marks }
  function draw(context, scene) {
    const { width, height } = scene;
    const colors = palette.colors;
    context.clearRect(0, 0, width, height);
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, width, height);
    context.textBaseline = 'middle';
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    grid(context, scene);
    items(context, scene);
    context.restore();
    axis(context, scene);
    overlays(context, scene);
  }

  function scale(scene) {
    return (scene.width - GUTTER) / (scene.view.to - scene.view.from);
  }

  function xOf(scene, time) {
    return GUTTER + (time - scene.view.from) * scale(scene);
  }

  function ticks(scene) {
    const { from, to } = scene.view;
    const every = step(to - from, (scene.width - GUTTER) / 110);
    const list = [];
    for (let time = Math.ceil(from / every) * every; time <= to && list.length < 200; time += every) list.push(time);
    return { every, list };
  }

  function grid(context, scene) {
    context.fillStyle = palette.colors.faint;
    for (const time of ticks(scene).list) context.fillRect(Math.round(xOf(scene, time)), AXIS, 1, scene.height);
  }

  function axis(context, scene) {
    const { every, list } = ticks(scene);
    const colors = palette.colors;
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, scene.width, AXIS);
    context.font = FONT;
    context.textAlign = 'left';
    for (const time of list) {
      const x = Math.round(xOf(scene, time));
      context.fillStyle = colors.line;
      context.fillRect(x, AXIS - 6, 1, 6);
      context.fillStyle = colors.soft;
      const label = format.moment(time, every);
      if (x + 4 + context.measureText(label).width < scene.width) context.fillText(label, x + 4, AXIS / 2);
    }
    context.fillStyle = colors.line;
    context.fillRect(0, AXIS - 1, scene.width, 1);
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, GUTTER, AXIS - 1);
    context.fillStyle = colors.soft;
    context.fillText(`${format.time(scene.view.to - scene.view.from)} in view`, 10, AXIS / 2);
    context.fillStyle = colors.bad;
    for (const [time] of scene.timeline.lost) {
      const x = Math.round(xOf(scene, time));
      if (x >= GUTTER) context.fillRect(x - 1, 0, 3, 5);
    }
  }

  function items(context, scene) {
    const { layout, scroll } = scene;
    const column = new Column(context, scene.timeline.categories, alpha(scene));
    const bottom = scroll + scene.height - AXIS;
    for (let index = lanes.firstAt(layout.items, scroll); index < layout.items.length; index++) {
      const item = layout.items[index];
      if (item.y > bottom) break;
      const y = AXIS + item.y - scroll;
      if (item.group) header(context, scene, item, y);
      else lane(context, scene, item, y, column);
    }
  }

  // What the search or the legend does not mean is dimmed.
  function alpha(scene) {
    const { matches, only } = scene;
    if (!matches && only == null) return () => 1;
    return (category, name) => {
      const out = (matches && name != null && !matches.has(name)) || (only != null && category !== only);
      return out ? 0.16 : 1;
    };
  }

  function header(context, scene, { group, height }, y) {
    const colors = palette.colors;
    const middle = y + height / 2;
    context.fillStyle = colors.faint;
    context.fillRect(0, y, scene.width, height);
    context.textAlign = 'left';
    context.fillStyle = colors.soft;
    context.font = FONT;
    context.fillText(group.collapsed ? '▸' : '▾', 8, middle);
    context.fillStyle = colors.ink;
    context.font = `600 ${FONT}`;
    const text = clipped(context, format.visible(group.label), Math.min(420, scene.width / 3));
    context.fillText(text, 22, middle);
    const left = Math.max(GUTTER, 32 + context.measureText(text).width);
    // Without GPU lanes the gaps are still worth seeing: above the first process.
    const bare = !scene.groups[0].gpu && group === scene.groups[0];
    if (group.gpu || bare) gaps(context, scene, left, y, height);
  }

  function gaps(context, scene, left, y, height) {
    const colors = palette.colors;
    context.font = FONT;
    for (const gap of scene.marks) {
      const x0 = Math.max(left, xOf(scene, gap.from));
      const x1 = Math.min(scene.width, xOf(scene, gap.to));
      if (x1 - x0 < 1) continue;
      context.fillStyle = colors.gap;
      context.fillRect(x0, y + 4, x1 - x0, height - 8);
      if (context.measureText(gap.label).width + 8 < x1 - x0) {
        context.fillStyle = colors.soft;
        context.fillText(gap.label, x0 + 5, y + height / 2);
      }
    }
  }

  function lane(context, scene, item, y, column) {
    const colors = palette.colors;
    context.save();
    context.beginPath();
    context.rect(GUTTER, y, scene.width - GUTTER, item.height);
    context.clip();
    const rowHeight = lanes.ROW - 2;
    item.lane.rows.forEach((row, depth) => {
      const rowY = y + 3 + depth * lanes.ROW;
      column.begin(rowY, rowHeight);
      if (row.cells) cells(context, scene, row, rowY, rowHeight, column);
      exact(context, scene, row, rowY, rowHeight, column);
      column.flush();
    });
    context.restore();
    context.fillStyle = colors.panel;
    context.fillRect(0, y, GUTTER, item.height);
    context.fillStyle = colors.soft;
    context.font = FONT;
    context.textAlign = 'left';
    context.fillText(clipped(context, format.visible(item.lane.label), GUTTER - 34), 22, y + 3 + rowHeight / 2);
    context.fillStyle = colors.line;
    context.fillRect(0, y + item.height - 1, scene.width, 0.5);
  }

  function exact(context, scene, row, y, height, column) {
    const { from, to } = scene.view;
    const k = scale(scene);
    const { categories, short } = scene.timeline;
    const colors = palette.colors;
    const alphaOf = column.alphaOf;
    const label = new Labels(context, short);
    for (let i = spans.firstAfter(row, from); i < row.kept && row.start[i] <= to; i++) {
      const x0 = GUTTER + (row.start[i] - from) * k;
      const w = row.duration[i] * k;
      const category = row.category[i];
      if (w < 1.5) {
        // Where there are cells, they have counted it.
        if (!row.cells) column.add(Math.max(GUTTER, Math.floor(x0)), category, Math.max(w, 0.05), row.name[i]);
        continue;
      }
      column.flush();
      const left = Math.max(x0, GUTTER - 2);
      const right = Math.min(x0 + w, scene.width + 2);
      const a = alphaOf(category, row.name[i]);
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
    const k = scale(scene);
    const width = scene.timeline.cell_ns;
    const { categories, short } = scene.timeline;
    const colors = palette.colors;
    const own = row.cells;
    const w = width * k;
    const first = Math.max(0, Math.floor(from / width) - own.first);
    const last = Math.min(row.cellCount - 1, Math.ceil(to / width) - own.first);
    for (let i = first; i <= last; i++) {
      const category = own.category[i];
      if (category === data.EMPTY) continue;
      const x = GUTTER + ((own.first + i) * width - from) * k;
      const filled = own.fill[i] / 255;
      if (w < 1.5) {
        column.add(Math.max(GUTTER, Math.floor(x)), category, Math.max(filled * w, 0.05), own.name[i]);
        continue;
      }
      column.flush();
      const left = Math.max(x, GUTTER);
      const right = Math.min(x + w, scene.width);
      // As high as it is full, so that a summary never looks like a span.
      const tall = Math.max(2, height * filled);
      context.globalAlpha = 0.5 * column.alphaOf(category, own.name[i]);
      context.fillStyle = colors.of(categories[category]);
      context.fillRect(left, y + height - tall, Math.max(1, right - left - 0.6), tall);
      context.globalAlpha = 1;
      if (w > 90) {
        context.fillStyle = colors.ink;
        context.font = MONO;
        const text = `${format.count(own.count[i])} × ${format.visible(short[own.name[i]])}`;
        context.fillText(clipped(context, text, right - left - 8), left + 4, y + height / 2 + 0.5);
      }
    }
  }

  // Names inside spans, with what they launched or moved where there is room.
  class Labels {
    constructor(context, names) {
      this.context = context;
      this.names = names;
      context.font = MONO;
      context.textAlign = 'left';
      this.character = context.measureText('m').width;
    }

    put(row, i, x, y, room) {
      const letters = Math.floor(room / this.character);
      if (letters < 2) return;
      let text = format.visible(format.short(this.names[row.name[i]], letters));
      if (row.detail[i] === 1) {
        const kernel = ` → ${format.visible(format.short(this.names[row.amount[i]], letters - text.length - 3))}`;
        if (text.length + 8 < letters) text += kernel;
      } else if (row.detail[i] > 1) {
        const size = ` ${format.bytes(row.amount[i])}`;
        if (text.length + size.length <= letters) text += size;
      }
      this.context.font = MONO;
      this.context.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, x, y);
    }
  }

  function clipped(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    return low > 0 ? `${text.slice(0, low)}…` : '';
  }

  function boxOf(scene, { row, i }) {
    const lane = scene.timeline.lanes[row.lane];
    if (lane.y == null) return null;
    const y = AXIS + lane.y - scene.scroll + 3 + lane.rows.indexOf(row) * lanes.ROW;
    const x0 = xOf(scene, row.start[i]);
    const x1 = xOf(scene, row.start[i] + row.duration[i]);
    return { x: x0, y, width: Math.max(2, x1 - x0), height: lanes.ROW - 2 };
  }

  function overlays(context, scene) {
    const colors = palette.colors;
    context.save();
    context.beginPath();
    context.rect(GUTTER, AXIS, scene.width - GUTTER, scene.height - AXIS);
    context.clip();
    if (scene.range) {
      const x0 = xOf(scene, scene.range.from);
      const x1 = xOf(scene, scene.range.to);
      context.fillStyle = colors.accent;
      context.globalAlpha = 0.13;
      context.fillRect(x0, AXIS, x1 - x0, scene.height);
      context.globalAlpha = 1;
      context.fillRect(x0, AXIS, 1, scene.height);
      context.fillRect(x1 - 1, AXIS, 1, scene.height);
    }
    if (scene.selected) {
      arrows(context, scene);
      outline(context, scene, scene.selected, 2, colors.ink);
    }
    if (scene.hover?.row && scene.hover.i >= 0) outline(context, scene, scene.hover, 1, colors.ink);
    context.restore();
  }

  function outline(context, scene, ref, weight, color) {
    const box = boxOf(scene, ref);
    if (!box) return;
    const left = Math.max(box.x, GUTTER - 4);
    const right = Math.min(box.x + box.width, scene.width + 4);
    context.strokeStyle = color;
    context.lineWidth = weight;
    context.strokeRect(left - 0.5, box.y - 0.5, right - left, box.height + 1);
  }

  // From a call to its GPU work, and back.
  function arrows(context, scene) {
    const from = boxOf(scene, scene.selected);
    if (!from) return;
    context.strokeStyle = palette.colors.accent;
    context.fillStyle = palette.colors.accent;
    context.lineWidth = 1.5;
    for (const ref of scene.linked ?? []) {
      const to = boxOf(scene, ref);
      if (!to) continue;
      const x0 = from.x;
      const y0 = from.y + from.height / 2;
      const x1 = to.x;
      const y1 = to.y + to.height / 2;
      const bend = Math.min(80, 20 + Math.abs(x1 - x0) / 3);
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 - bend, y0, x1 - bend, y1, x1, y1);
      context.stroke();
      context.beginPath();
      context.arc(x1, y1, 3, 0, 7);
      context.fill();
    }
  }

  return { GUTTER, AXIS, draw, xOf, scale, step };
})();
