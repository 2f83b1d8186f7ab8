// The timeline: what is in view, what is selected, and how keys, wheel and mouse change it.

const timelineView = (() => {
  const SHORTEST = 20; // nanoseconds

  // `second`: the other trace's timeline, with its own canvas; it keeps nothing in the address.
  function create(report, hooks, second) {
    const { timeline, meta } = report;
    const { canvas, scroller, spacer } = second ?? { canvas: byId('timeline-canvas'), scroller: byId('timeline-scroll'), spacer: byId('timeline-spacer') };
    const remember = (changes) => second == null && place.set(changes);
    const context = canvas.getContext('2d');
    const groups = lanes.groupsOf(timeline, meta, report.summary?.processes);
    const find = spans.finder(timeline);
    // Beside a longer trace there is as much time as that has.
    const end = Math.max(hooks.end ?? timeline.end_ns, 1);
    const scene = {
      timeline,
      groups,
      layout: lanes.layout(groups),
      view: { from: 0, to: end },
      width: 0,
      height: 0,
      scroll: 0,
      selected: null,
      linked: [],
      range: null,
      matches: null,
      only: null,
      hover: null,
      marks: [],
      // A row as it is drawn: finer where the server gave more.
      shown: (row) => row,
    };
    let frame = 0;
    const listeners = [];

    function redraw() {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        drawing.draw(context, scene);
      });
    }

    function resize() {
      const box = scroller.getBoundingClientRect();
      const width = Math.max(240, scroller.clientWidth);
      const height = Math.max(80, Math.round(box.height) - 2);
      const ratio = devicePixelRatio || 1;
      scale.fit(width);
      scene.width = width;
      scene.height = height;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      redraw();
    }

    function relayout() {
      scene.layout = lanes.layout(groups);
      const wanted = scene.layout.height + scale.AXIS + 8;
      spacer.style.height = `${wanted}px`;
      scroller.style.height = `min(${Math.max(wanted + 2, 110)}px, ${second || hooks.half ? '36vh' : 'var(--timeline-most)'})`;
      resize();
    }

    function changed() {
      const whole = scene.view.from <= 0 && scene.view.to >= end;
      remember({
        from: whole ? null : Math.round(scene.view.from),
        to: whole ? null : Math.round(scene.view.to),
      });
      for (const listener of listeners) listener(scene.view);
      redraw();
    }

    // Shows a stretch of time, kept inside the trace.
    function show(from, to) {
      let span = Math.min(Math.max(to - from, SHORTEST), end);
      let left = Math.min(Math.max(from, 0), end - span);
      if (!Number.isFinite(left) || !Number.isFinite(span)) {
        left = 0;
        span = end;
      }
      scene.view = { from: left, to: left + span };
      changed();
    }

    function zoom(factor, around) {
      const { from, to } = scene.view;
      const middle = around ?? (from + to) / 2;
      const span = Math.min(Math.max((to - from) * factor, SHORTEST), end);
      const left = middle - ((middle - from) / (to - from)) * span;
      show(left, left + span);
    }

    function pan(part) {
      const by = (scene.view.to - scene.view.from) * part;
      const left = Math.min(Math.max(scene.view.from + by, 0), end - (scene.view.to - scene.view.from));
      show(left, left + scene.view.to - scene.view.from);
    }

    function timeAt(x) {
      return scene.view.from + (x - scale.GUTTER) / scale.of(scene);
    }

    // What lies below a point of the canvas.
    function hit(x, y) {
      if (y < scale.AXIS) return { axis: true, time: timeAt(x) };
      const place = y - scale.AXIS + scene.scroll;
      const item = scene.layout.items[lanes.firstAt(scene.layout.items, place)];
      if (!item || place < item.y) return null;
      if (item.group) return { group: item.group };
      if (x < scale.GUTTER) return { lane: item.lane };
      const whole = item.lane.rows[Math.floor((place - item.y - 3) / lanes.ROW)];
      if (!whole) return { lane: item.lane };
      const row = scene.shown(whole);
      const time = timeAt(x);
      const slack = 3 / scale.of(scene);
      const i = spans.at(row, time, slack);
      const seen = i >= 0 && (!row.cells || row.duration[i] * scale.of(scene) >= 1.5 || spans.allKept(timeline, time, time));
      if (seen) return { row, i, time };
      if (spans.allKept(timeline, time, time)) return { lane: item.lane, time };
      const cell = spans.cellAt(row, time, row.cell_ns ?? timeline.cell_ns);
      return cell >= 0 ? { row, i: -1, cell, time } : { lane: item.lane, time };
    }

    function scrollTo(row) {
      const lane = timeline.lanes[row.lane];
      if (lane.group.collapsed) {
        lane.group.collapsed = false;
        relayout();
      }
      const y = lane.y + row.place * lanes.ROW;
      const room = scene.height - scale.AXIS;
      if (y < scene.scroll || y + lanes.ROW * 2 > scene.scroll + room) {
        scroller.scrollTop = Math.max(0, y - room / 3);
        scene.scroll = scroller.scrollTop;
      }
    }

    function select(ref) {
      scene.selected = ref;
      scene.linked = ref ? find.linked(ref) : [];
      if (ref) scene.range = null;
      remember({ op: ref ? ref.row.id[ref.i] : null });
      hooks.selected(ref, scene.linked);
      redraw();
    }

    function selectRange(range) {
      scene.range = range;
      if (range) {
        scene.selected = null;
        scene.linked = [];
      }
      hooks.ranged(range);
      redraw();
    }

    // Shows a span with some of its surroundings, and selects it.
    function reveal(ref) {
      const { row, i } = ref;
      const span = Math.max(row.duration[i] * 1.6, SHORTEST * 5);
      const middle = row.start[i] + row.duration[i] / 2;
      show(middle - span / 2, middle + span / 2);
      scrollTo(row);
      select(ref);
    }

    // A stretch with room on both sides.
    function revealTime(from, to) {
      const span = Math.max((to - from) * 1.25, SHORTEST * 5);
      const middle = (from + to) / 2;
      show(middle - span / 2, middle + span / 2);
      selectRange({ from, to: Math.max(to, from + 1) });
    }

    scroller.addEventListener('scroll', () => {
      scene.scroll = scroller.scrollTop;
      redraw();
    });
    new ResizeObserver(() => {
      resize();
      if (scene.selected) scrollTo(scene.selected.row);
    }).observe(scroller);
    palette.changed(redraw);

    const view = {
      scene,
      end,
      canvas,
      scroller,
      find,
      rows: () => timeline.rows.map(scene.shown),
      revealId(id) {
        const ref = find.id(id);
        if (ref) reveal(ref);
        return ref != null;
      },
      show,
      zoom,
      pan,
      hit,
      timeAt,
      select,
      selectRange,
      reveal,
      revealTime,
      scrollTo,
      relayout,
      redraw,
      drawNow: () => drawing.draw(context, scene),
      fit: () => show(0, end),
      onchange: (listener) => listeners.push(listener),
    };
    relayout();
    return view;
  }

  return { create };
})();
