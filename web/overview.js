// The whole trace in one strip, by category, with the part in view marked. Drag it to move the view.

const overview = (() => {
  const HEIGHT = 44;

  function create(view) {
    const canvas = byId('timeline-overview');
    const context = canvas.getContext('2d');
    const { timeline } = view.scene;
    let columns = null;
    let width = 0;
    let left = scale.GUTTER;
    const plot = () => Math.max(1, width - left);
    const timeOf = (event) => ((event.offsetX - left) / plot()) * view.end;

    function gather() {
      const bins = Math.max(1, Math.round(plot()));
      const number = timeline.categories.length;
      const sums = new Float64Array(bins * number);
      const k = bins / view.end;
      const offCpu = timeline.categories.indexOf('off-cpu');
      const add = (from, to, category, part) => {
        // Threads that wait would hide those that work.
        if (category === offCpu) return;
        const first = Math.max(0, Math.floor(from * k));
        const last = Math.min(bins - 1, Math.floor(to * k));
        for (let bin = first; bin <= last; bin++) {
          const inside = Math.min(to * k, bin + 1) - Math.max(from * k, bin);
          sums[bin * number + category] += Math.max(inside, 0.02) * part;
        }
      };
      for (const row of timeline.rows) {
        if (row.depth > 0) continue;
        if (row.cells) {
          const w = timeline.cell_ns;
          for (let i = 0; i < row.cellCount; i++) {
            if (row.cells.category[i] === data.EMPTY) continue;
            const from = (row.cells.first + i) * w;
            add(from, from + w, row.cells.category[i], row.cells.fill[i] / 255);
          }
        } else {
          for (let i = 0; i < row.kept; i++) add(row.start[i], row.start[i] + row.duration[i], row.category[i], 1);
        }
      }
      columns = { bins, number, sums };
    }

    function draw() {
      if (!columns) return;
      const colors = palette.colors;
      context.clearRect(0, 0, width, HEIGHT);
      const { bins, number, sums } = columns;
      let most = 0;
      for (let bin = 0; bin < bins; bin++) {
        let total = 0;
        for (let category = 0; category < number; category++) total += sums[bin * number + category];
        most = Math.max(most, total);
      }
      for (let bin = 0; bin < bins && most > 0; bin++) {
        let y = HEIGHT;
        for (let category = 0; category < number; category++) {
          const tall = (sums[bin * number + category] / most) * (HEIGHT - 4);
          if (tall <= 0) continue;
          context.fillStyle = colors.of(timeline.categories[category]);
          context.fillRect(left + bin, y - tall, 1, tall);
          y -= tall;
        }
      }
      const x0 = left + (view.scene.view.from / view.end) * plot();
      const x1 = left + (view.scene.view.to / view.end) * plot();
      context.fillStyle = colors.panel;
      context.globalAlpha = 0.72;
      context.fillRect(left, 0, x0 - left, HEIGHT);
      context.fillRect(x1, 0, width - x1, HEIGHT);
      context.globalAlpha = 1;
      context.fillStyle = colors.soft;
      context.font = '11px ui-sans-serif, system-ui, sans-serif';
      context.textBaseline = 'middle';
      context.fillText(left < 120 ? format.time(timeline.end_ns) : `whole run, ${format.time(timeline.end_ns)}`, 10, HEIGHT / 2);
      context.fillStyle = colors.accent;
      context.fillRect(Math.min(x0, width - 2), 0, 2, HEIGHT);
      context.fillRect(Math.max(x1 - 2, 0), 0, 2, HEIGHT);
    }

    function resize() {
      const next = Math.max(1, Math.round(canvas.clientWidth));
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(next * ratio);
      canvas.height = Math.round(HEIGHT * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      if (next !== width) {
        width = next;
        left = scale.GUTTER;
        gather();
      }
      draw();
    }

    let grabbed = null;
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      const time = timeOf(event);
      const { from, to } = view.scene.view;
      const near = (6 / plot()) * view.end;
      const edge = Math.abs(time - from) < near ? 'from' : Math.abs(time - to) < near ? 'to' : null;
      grabbed = { edge, inside: time >= from && time <= to, time, from, to };
      if (!edge && !grabbed.inside) {
        const span = to - from;
        view.show(time - span / 2, time + span / 2);
        grabbed = { edge: null, inside: true, time, from: view.scene.view.from, to: view.scene.view.to };
      }
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!grabbed) return;
      const time = timeOf(event);
      if (grabbed.edge === 'from') view.show(Math.min(time, grabbed.to - 20), grabbed.to);
      else if (grabbed.edge === 'to') view.show(grabbed.from, Math.max(time, grabbed.from + 20));
      else {
        const span = grabbed.to - grabbed.from;
        const left = Math.min(Math.max(grabbed.from + time - grabbed.time, 0), view.end - span);
        view.show(left, left + span);
      }
    });
    for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, () => (grabbed = null));

    new ResizeObserver(resize).observe(canvas);
    view.onchange(draw);
    palette.changed(draw);
    resize();
  }

  return { create };
})();
