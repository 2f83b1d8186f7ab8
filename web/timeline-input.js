// Mouse, wheel and keys of the timeline.

const timelineInput = (() => {
  function attach(view, tooltip) {
    const { canvas, scene } = view;
    wheel(view);
    mouse(view, tooltip);
    timelineTouch.attach(view);
    canvas.addEventListener('keydown', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && ofSelection(view, event)) event.preventDefault();
    });
    canvas.addEventListener('blur', () => tooltip.hide());
    canvas.addEventListener('dblclick', (event) => {
      const found = view.hit(event.offsetX, event.offsetY);
      if (found?.row && found.i >= 0) view.reveal(found);
      else if (found?.cell >= 0) {
        const from = (found.row.cells.first + found.cell) * (found.row.cell_ns ?? scene.timeline.cell_ns);
        view.show(from, from + (found.row.cell_ns ?? scene.timeline.cell_ns));
      }
    });
  }

  function wheel(view) {
    const { canvas } = view;
    // A scroll of the page that happens to pass over the timeline stays a scroll of the page.
    let outside = -Infinity;
    addEventListener(
      'wheel',
      (event) => {
        if (event.target !== canvas) outside = event.timeStamp;
      },
      { passive: true },
    );
    canvas.addEventListener(
      'wheel',
      (event) => {
        if (event.timeStamp - outside < 250) {
          outside = event.timeStamp;
          return;
        }
        if (event.offsetX < scale.GUTTER && !event.ctrlKey) return;
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          view.pan(((event.deltaX || event.deltaY) * unit) / (view.scene.width - scale.GUTTER));
        } else {
          const amount = Math.max(-240, Math.min(240, event.deltaY * unit));
          view.zoom(Math.exp(amount / 320), view.timeAt(event.offsetX));
        }
      },
      { passive: false },
    );
  }

  function mouse(view, tooltip) {
    const { canvas, scene } = view;
    let drag = null;

    canvas.addEventListener('pointerdown', (event) => {
      if (event.button > 1 || event.pointerType === 'touch') return;
      canvas.focus({ preventScroll: true });
      const panning = event.shiftKey || event.button === 1;
      drag = { x: event.offsetX, y: event.offsetY, panning, time: view.timeAt(event.offsetX), from: scene.view.from, moved: false };
      if (event.offsetX >= scale.GUTTER) canvas.setPointerCapture(event.pointerId);
      if (panning) event.preventDefault();
    });

    canvas.addEventListener('pointermove', (event) => {
      if (event.pointerType === 'touch') return;
      if (!drag) {
        hover(view, tooltip, event);
        return;
      }
      if (Math.abs(event.offsetX - drag.x) > 4) drag.moved = true;
      if (!drag.moved || drag.x < scale.GUTTER) return;
      tooltip.hide();
      if (drag.panning) {
        const by = (drag.x - event.offsetX) / scale.of(scene);
        const span = scene.view.to - scene.view.from;
        const left = Math.min(Math.max(drag.from + by, 0), view.end - span);
        view.show(left, left + span);
      } else {
        const time = view.timeAt(Math.max(scale.GUTTER, event.offsetX));
        view.selectRange({ from: Math.max(0, Math.min(drag.time, time)), to: Math.min(view.end, Math.max(drag.time, time)) });
      }
    });

    canvas.addEventListener('pointerup', (event) => {
      const was = drag;
      drag = null;
      if (!was || was.moved) return;
      press(view, view.hit(event.offsetX, event.offsetY));
    });

    canvas.addEventListener('pointercancel', () => (drag = null));
    canvas.addEventListener('pointerleave', () => {
      tooltip.hide();
      scene.hover = null;
      view.redraw();
    });
  }

  // A click or a tap: a group opens or closes, a span or a cell is selected.
  function press(view, found) {
    if (found?.group) {
      found.group.collapsed = !found.group.collapsed;
      view.relayout();
    } else if (found?.row && found.i >= 0) {
      view.select(found);
    } else if (found?.cell >= 0) {
      const width = found.row.cell_ns ?? view.scene.timeline.cell_ns;
      const from = (found.row.cells.first + found.cell) * width;
      view.selectRange({ from, to: from + width });
    } else {
      view.select(null);
      view.selectRange(null);
    }
  }

  function hover(view, tooltip, event) {
    const found = view.hit(event.offsetX, event.offsetY);
    view.canvas.style.cursor = found?.group || found?.row ? 'pointer' : event.offsetX < scale.GUTTER ? 'default' : 'crosshair';
    view.scene.hover = found?.row ? found : null;
    if (found?.row) tooltip.show(event.clientX, event.clientY, found);
    else tooltip.hide();
    view.redraw();
  }

  // Keys that work wherever the focus is, unless text is being typed. True if it was one.
  function anywhere(view, event) {
    switch (event.key.toLowerCase()) {
      case 'w':
        view.zoom(1 / 1.5);
        return true;
      case 's':
        view.zoom(1.5);
        return true;
      case 'a':
        view.pan(-0.2);
        return true;
      case 'd':
        view.pan(0.2);
        return true;
      case 'f':
      case '0':
        view.fit();
        return true;
      case 'r':
        view.selectRange(view.scene.view);
        return true;
      default:
        return false;
    }
  }

  // Keys of the focused timeline: arrows walk from span to span, or move the view.
  function ofSelection(view, event) {
    const { scene } = view;
    const selected = scene.selected;
    switch (event.key) {
      case 'ArrowLeft':
      case 'ArrowRight':
        if (selected) step(view, event.key === 'ArrowRight' ? 1 : -1);
        else view.pan(event.key === 'ArrowRight' ? 0.1 : -0.1);
        return true;
      case 'ArrowUp':
      case 'ArrowDown':
        if (selected) climb(view, event.key === 'ArrowDown' ? 1 : -1);
        else view.scroller.scrollTop += event.key === 'ArrowDown' ? 60 : -60;
        return true;
      case 'Home':
        view.show(0, scene.view.to - scene.view.from);
        return true;
      case 'End':
        view.show(view.end - (scene.view.to - scene.view.from), view.end);
        return true;
      case 'PageUp':
      case 'PageDown':
        view.scroller.scrollTop += (event.key === 'PageDown' ? 0.8 : -0.8) * scene.height;
        return true;
      case 'Enter':
        if (selected) view.reveal(selected);
        else if (scene.range) view.show(scene.range.from, scene.range.to);
        else selectLongest(view);
        return true;
      case '+':
      case '=':
        view.zoom(1 / 1.5);
        return true;
      case '-':
        view.zoom(1.5);
        return true;
      default:
        return false;
    }
  }

  // The next or previous span of the row, brought into view.
  function step(view, by) {
    const { row, i } = view.scene.selected;
    const next = i + by;
    if (next < 0 || next >= row.kept) return;
    const { from, to } = view.scene.view;
    const ref = { row, i: next };
    const middle = row.start[next] + row.duration[next] / 2;
    if (middle < from || middle > to) view.show(middle - (to - from) / 2, middle + (to - from) / 2);
    view.select(ref);
  }

  // Into the spans inside, or out to the one around; past the last row, to the next lane.
  function climb(view, by) {
    const { row, i } = view.scene.selected;
    const lane = view.scene.timeline.lanes[row.lane];
    const time = row.start[i] + row.duration[i] / 2;
    let rows = lane.rows.map(view.scene.shown);
    let at = row.place + by;
    if (!rows[at] || spans.at(rows[at], time, row.duration[i] / 2) < 0) {
      const order = view.scene.layout.items.filter((item) => item.lane).map((item) => item.lane);
      const next = order[order.indexOf(lane) + by];
      if (!next) return;
      rows = next.rows.map(view.scene.shown);
      at = 0;
    }
    const target = rows[at];
    const found = spans.at(target, time, Infinity);
    if (found < 0) return;
    view.scrollTo(target);
    view.select({ row: target, i: found });
  }

  function selectLongest(view) {
    const { scene } = view;
    let best = null;
    for (const row of view.rows()) {
      for (let i = spans.firstAfter(row, scene.view.from); i < row.kept && row.start[i] <= scene.view.to; i++) {
        if (!best || row.duration[i] > best.row.duration[best.i]) best = { row, i };
      }
    }
    if (!best) return;
    view.scrollTo(best.row);
    view.select(best);
  }

  return { attach, anywhere, press };
})();
