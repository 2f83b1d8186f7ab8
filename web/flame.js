// The flame graph: call paths, as wide as their time. Every box is a button: Tab and Enter work.

const flame = (() => {
  const HEIGHT = 19;
  const FRAME = 255;

  function create(report, go) {
    const { timeline } = report;
    const body = byId('flame-body');
    const tools = byId('flame-tools');
    let root = timeline.flame.host.total > 0 || timeline.flame.gpu.total === 0 ? timeline.flame.host : timeline.flame.gpu;
    let focus = root;
    let matches = null;

    const sides = [
      ['Host time', timeline.flame.host],
      ['GPU time', timeline.flame.gpu],
    ];
    const buttons = sides.map(([title, node]) =>
      el('button', { type: 'button', 'aria-pressed': String(node === root), disabled: node.total === 0, onclick: () => choose(node) }, title),
    );
    dom.replace(tools, buttons);

    function choose(node) {
      root = node;
      focus = node;
      buttons.forEach((button, index) => button.setAttribute('aria-pressed', String(sides[index][1] === node)));
      draw();
    }

    function label(node) {
      if (node === timeline.flame.host) return 'All host threads';
      if (node === timeline.flame.gpu) return 'All GPU streams';
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
          for (const child of [...node.children].sort((a, b) => b.total - a.total)) {
            const wide = node.total > 0 ? (child.total / node.total) * w : 0;
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
        root.total === 0 && el('p', { class: 'quiet' }, 'This trace contains no call with a duration.'),
        root.total > 0 && rows,
        root.total > 0 && el('p', { class: 'hint' }, 'Width is time, summed over threads. Click a box to zoom in; click one above it to go back.'),
      );

      function box(node, x, w, row, above) {
        boxes += 1;
        const category = node.category === FRAME ? null : timeline.categories[node.category];
        const part = root.total > 0 ? node.total / root.total : 0;
        const tip = `${label(node)}: ${format.time(node.total)}, ${format.share(part)}${node.count ? `; self ${format.time(node.own)}, ${format.plural(node.count, 'call', 'calls')}` : ''}`;
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
      if (node === focus && node.name && node.category !== FRAME) go.name(node.name);
      focus = node;
      draw();
    }

    palette.changed(draw);
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(body.clientWidth - width) > 4) {
        width = body.clientWidth;
        draw();
      }
    }).observe(body);
    draw();
    return {
      highlight(set) {
        matches = set;
        draw();
      },
    };
  }

  return { create };
})();
