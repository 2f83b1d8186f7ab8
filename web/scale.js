// Where times are on the canvas: the gutter with the lanes' names, the axis, and the scale between.

const scale = (() => {
  const AXIS = 26;
  const WIDE = 178;
  const NARROW = 84;
  let gutter = WIDE;

  // Phones have no room for whole names beside the lanes.
  function fit(width) {
    gutter = width < 620 ? NARROW : WIDE;
  }

  // The steps of an axis: 1, 2 or 5 times a power of ten.
  function step(span, wanted) {
    const rough = span / Math.max(wanted, 1);
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
    const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough) ?? 10;
    return Math.max(1, factor * power);
  }

  // Pixels a nanosecond.
  function of(scene) {
    return (scene.width - gutter) / (scene.view.to - scene.view.from);
  }

  function xOf(scene, time) {
    return gutter + (time - scene.view.from) * of(scene);
  }

  // As much of a text as there is room for.
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

  return {
    AXIS,
    get GUTTER() {
      return gutter;
    },
    FONT: '11px ui-sans-serif, system-ui, sans-serif',
    MONO: '11px ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace',
    fit,
    of,
    xOf,
    step,
    clipped,
  };
})();
