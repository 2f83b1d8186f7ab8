// The flame graph: call paths, as wide as their time or their bytes. Every box is a button: Tab and Enter work.

const flame = (() => {
  const HEIGHT = 19;
  const FRAME = 255;
  const [TIME, ALLOCATED, MOVED] = [0, 1, 2];

  // `known`: the roots, { host, gpu }. `open`: what a second press on a box does, by its name.
  function graph(timeline, known, { body, tools, open }) {
    const sides = [
      ['Host time', known.host, TIME],
      ['GPU time', known.gpu, TIME],
      ['Bytes allocated', known.host, ALLOCATED],
      ['Bytes copied', known.host, MOVED],
      ['Bytes copied on the GPU', known.gpu, MOVED],
    ];
    let side = sides.find(([, node, weight]) => node.total[weight] > 0) ?? sides[0];
    let [, root, weight] = side;
    let focus = root;
    let matches = null;
    const amount = (value) => (weight === TIME ? format.time(value) : format.bytes(value));

    const buttons = sides.map((one) =>
      el('button', { type: 'button', 'aria-pressed': String(one === side), disabled: one[1].total[one[2]] === 0, onclick: () => choose(one) }, one[0]),
    );
    dom.replace(tools, buttons);

    function choose(one) {
      side = one;
      [, root, weight] = one;
      focus = root;
      buttons.forEach((button, index) => button.setAttribute('aria-pressed', String(sides[index] === one)));
      draw();
    }

    function label(node) {
      if (node === known.host) return 'All host threads';
      if (node === known.gpu) return 'All GPU streams';
      return timeline.short[node.name];
    }

    function draw() {
      const rows = el('div', { class: 'flame-rows' });
      const width = Math.max(200, body.clientWidth - 18);
      let depth = 0;
      let boxes = 0;
      const chain = [];
      for (let node = focus; node; node = node.up) chain.unshift(node);
      for (const node of chain.slice(0, -1)) box(node, 0, width, depth++, true);
      const level = [[focus, 0, width]];
      while (level.length > 0 && boxes < 3000) {
        const next = [];
        for (const [node, x, w] of level) {
          box(node, x, w, depth, false);
          let at = x;
          for (const child of [...node.children].sort((a, b) => b.total[weight] - a.total[weight])) {
            const wide = node.total[weight] > 0 ? (child.total[weight] / node.total[weight]) * w : 0;
            if (wide >= 1.5) next.push([child, at, wide]);
            at += wide;
          }
        }
        level.splice(0, level.length, ...next);
        depth += 1;
      }
      rows.style.height = `${depth * HEIGHT}px`;
      dom.replace(
        body,
        root.total[weight] === 0 && el('p', { class: 'quiet' }, 'There is no call with a duration.'),
        root.total[weight] > 0 && rows,
        root.total[weight] > 0 && el('p', { class: 'hint' }, `Width is ${weight === TIME ? 'time, summed over threads' : weight === ALLOCATED ? 'bytes allocated' : 'bytes copied'}. Click a box to zoom in; click one above it to go back.`),
      );

      function box(node, x, w, row, above) {
        boxes += 1;
        const category = node.category === FRAME ? null : timeline.categories[node.category];
        const part = root.total[weight] > 0 ? node.total[weight] / root.total[weight] : 0;
        const tip = `${label(node)}: ${amount(node.total[weight])}, ${format.share(part)}${node.count ? `; self ${amount(node.own[weight])}, ${format.plural(node.count, 'call', 'calls')}` : ''}`;
        const dim = (matches && !matches.has(node.name)) || above;
        const button = el(
          'button',
          { type: 'button', class: `flame-node${category ? '' : ' frame'}${dim ? ' dim' : ''}`, title: tip, 'aria-label': tip, onclick: () => press(node) },
          w > 24 ? label(node) : '',
        );
        Object.assign(button.style, { left: `${x}px`, top: `${row * HEIGHT}px`, width: `${Math.max(1, w)}px` });
        if (category) Object.assign(button.style, { background: `var(--cat-${category})`, color: palette.colors.on(category) });
        rows.append(button);
      }
    }

    function press(node) {
      if (node === focus && node.name && node.category !== FRAME) open?.(node.name);
      focus = node;
      draw();
    }

    draw();
    return {
      draw,
      highlight(set) {
        matches = set;
        draw();
      },
    };
  }

  // Draws again when colours or the width change. `current`: the graph in `body`.
  function watch(body, current) {
    let width = body.clientWidth;
    palette.changed(() => current()?.draw());
    new ResizeObserver(() => {
      if (Math.abs(body.clientWidth - width) <= 4) return;
      width = body.clientWidth;
      current()?.draw();
    }).observe(body);
  }

  function create(report, go) {
    const { timeline } = report;
    const body = byId('flame-body');
    const made = graph(timeline, timeline.flame, { body, tools: byId('flame-tools'), open: go.name });
    watch(body, () => made);
    return { timeline, highlight: made.highlight };
  }

  return { create, graph, watch, FRAME };
})();
