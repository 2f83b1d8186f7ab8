// Drawing the timeline: axis, lanes, what is selected. The bars of a row are drawn by bars.js.

const drawing = (() => {
  const { AXIS, FONT, xOf, clipped } = scale;

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

  function ticks(scene) {
    const { from, to } = scene.view;
    const every = scale.step(to - from, (scene.width - scale.GUTTER) / 110);
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
    context.fillRect(0, 0, scale.GUTTER, AXIS - 1);
    context.fillStyle = colors.soft;
    const span = format.time(scene.view.to - scene.view.from);
    context.fillText(scale.GUTTER < 120 ? span : `${span} in view`, 10, AXIS / 2);
    context.fillStyle = colors.bad;
    for (const [time] of scene.timeline.lost) {
      const x = Math.round(xOf(scene, time));
      if (x >= scale.GUTTER) context.fillRect(x - 1, 0, 3, 5);
    }
  }

  function items(context, scene) {
    const { layout, scroll } = scene;
    const column = new bars.Column(context, scene.timeline.categories, bars.alpha(scene));
    const bottom = scroll + scene.height - AXIS;
    for (let index = lanes.firstAt(layout.items, scroll); index < layout.items.length; index++) {
      const item = layout.items[index];
      if (item.y > bottom) break;
      const y = AXIS + item.y - scroll;
      if (item.group) header(context, scene, item, y);
      else lane(context, scene, item, y, column);
    }
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
    const left = Math.max(scale.GUTTER, 32 + context.measureText(text).width);
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
    context.rect(scale.GUTTER, y, scene.width - scale.GUTTER, item.height);
    context.clip();
    const rowHeight = lanes.ROW - 2;
    item.lane.rows.forEach((row, depth) => {
      const rowY = y + 3 + depth * lanes.ROW;
      bars.row(context, scene, scene.shown(row), rowY, rowHeight, column);
    });
    context.restore();
    context.fillStyle = colors.panel;
    context.fillRect(0, y, scale.GUTTER, item.height);
    context.fillStyle = colors.soft;
    context.font = FONT;
    context.textAlign = 'left';
    const narrow = scale.GUTTER < 120;
    const room = scale.GUTTER - (narrow ? 12 : 34);
    const labels = item.lane.labels.map(format.visible);
    const label = labels.find((text) => context.measureText(text).width <= room) ?? labels.at(-1);
    context.fillText(clipped(context, label, room), narrow ? 8 : 22, y + 3 + rowHeight / 2);
    context.fillStyle = colors.line;
    context.fillRect(0, y + item.height - 1, scene.width, 0.5);
  }

  function boxOf(scene, { row, i }) {
    const lane = scene.timeline.lanes[row.lane];
    if (lane.y == null) return null;
    const y = AXIS + lane.y - scene.scroll + 3 + row.place * lanes.ROW;
    const x0 = xOf(scene, row.start[i]);
    const x1 = xOf(scene, row.start[i] + row.duration[i]);
    return { x: x0, y, width: Math.max(2, x1 - x0), height: lanes.ROW - 2 };
  }

  function overlays(context, scene) {
    const colors = palette.colors;
    context.save();
    context.beginPath();
    context.rect(scale.GUTTER, AXIS, scene.width - scale.GUTTER, scene.height - AXIS);
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
    const left = Math.max(box.x, scale.GUTTER - 4);
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

  return { draw };
})();
