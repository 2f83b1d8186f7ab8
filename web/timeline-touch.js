// Fingers on the timeline: one moves it, two zoom it, a tap selects. Up and down stay with the page.

const timelineTouch = (() => {
  function attach(view) {
    const { canvas, scene } = view;
    const fingers = new Map();
    let gesture = null;

    // What stays under the fingers: two times, or one.
    function begin() {
      const [a, b] = [...fingers.values()];
      gesture = a && { moved: gesture?.moved ?? false, a: view.timeAt(a.x), b: b && view.timeAt(b.x) };
    }

    function move() {
      const [a, b] = [...fingers.values()];
      const plot = scene.width - scale.GUTTER;
      if (b && gesture.b != null && Math.abs(a.x - b.x) > 8) {
        // The times a and b go where the fingers are.
        const perPixel = Math.abs((gesture.b - gesture.a) / (b.x - a.x));
        const from = gesture.a - (a.x - scale.GUTTER) * perPixel;
        view.show(from, from + plot * perPixel);
      } else if (!b) {
        const span = scene.view.to - scene.view.from;
        const from = gesture.a - ((a.x - scale.GUTTER) / plot) * span;
        const left = Math.min(Math.max(from, 0), view.end - span);
        view.show(left, left + span);
      }
    }

    canvas.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'touch') return;
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, x0: event.offsetX });
      canvas.setPointerCapture(event.pointerId);
      if (fingers.size === 1) gesture = null;
      begin();
    });
    canvas.addEventListener('pointermove', (event) => {
      const finger = fingers.get(event.pointerId);
      if (!finger || !gesture) return;
      const box = canvas.getBoundingClientRect();
      finger.x = event.clientX - box.left;
      if (Math.abs(finger.x - finger.x0) > 8) gesture.moved = true;
      if (gesture.moved) move();
    });
    canvas.addEventListener('pointerup', (event) => {
      const finger = fingers.get(event.pointerId);
      if (!finger) return;
      fingers.delete(event.pointerId);
      const tap = !gesture?.moved && fingers.size === 0;
      if (tap) timelineInput.press(view, view.hit(finger.x, finger.y));
      begin();
    });
    canvas.addEventListener('pointercancel', (event) => {
      fingers.delete(event.pointerId);
      begin();
    });
  }

  return { attach };
})();
