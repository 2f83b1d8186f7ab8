// Small charts in SVG: levels over time, and histograms on a logarithmic axis.

const charts = (() => {
  // As wide as the page is now: pictures that are stretched have letters of any size.
  const whole = () => Math.max(320, Math.min(2500, byId('main').clientWidth - 70));

  // series: [{ label, color, bin, values }], values the highest level in each bin.
  // `top`: what the axis reaches at least; `marks`: how many times it tells, about.
  function levels({ series, end, unit, title, width = whole(), height = 200, marks = Math.min(10, width / 160), top = 1, open, hover }) {
    const left = 70;
    const bottom = 22;
    const most = Math.max(top, ...series.map((line) => line.values.reduce((high, value) => Math.max(high, value), 0)));
    const x = (time) => left + (time / end) * (width - left - 10);
    const y = (value) => 8 + (1 - value / most) * (height - bottom - 8);
    const parts = [];
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      parts.push(svg('line', { class: part === 0 ? 'axis' : 'grid', x1: left, x2: width - 10, y1: y(most * part), y2: y(most * part) }));
      parts.push(svg('text', { x: left - 8, y: y(most * part) + 4, 'text-anchor': 'end' }, unit(Math.round(most * part))));
    }
    const every = scale.step(end, marks);
    for (let time = 0; time <= end; time += every) {
      parts.push(svg('text', { x: x(time), y: height - 6, 'text-anchor': time === 0 ? 'start' : 'middle' }, format.moment(time, every)));
    }
    for (const line of series) {
      let path = `M${x(0)} ${y(0)}`;
      line.values.forEach((value, index) => {
        path += `L${x(Math.min(index * line.bin, end)).toFixed(1)} ${y(value).toFixed(1)}L${x(Math.min((index + 1) * line.bin, end)).toFixed(1)} ${y(value).toFixed(1)}`;
      });
      // After the last change the level stays.
      const last = y(line.final ?? line.values.at(-1) ?? 0).toFixed(1);
      path += `L${x(Math.min(line.values.length * line.bin, end)).toFixed(1)} ${last}L${x(end)} ${last}`;
      parts.push(svg('path', { d: `${path}L${x(end)} ${y(0)}Z`, fill: line.color, 'fill-opacity': 0.16, stroke: 'none' }));
      parts.push(svg('path', { d: path, fill: 'none', stroke: line.color, 'stroke-width': 1.6, 'vector-effect': 'non-scaling-stroke' }));
    }
    const picture = svg('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title }, svg('title', {}, title), parts);
    const timeAt = (event) => {
      const box = picture.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * width;
      return Math.max(0, Math.min(end, ((at - left) / (width - left - 10)) * end));
    };
    if (open) {
      picture.classList.add('clickable');
      picture.addEventListener('click', (event) => open(timeAt(event)));
    }
    if (hover) {
      const cursor = svg('line', { class: 'cursor', x1: left, x2: left, y1: 8, y2: height - bottom, visibility: 'hidden' });
      picture.append(cursor);
      picture.addEventListener('pointermove', (event) => {
        const time = timeAt(event);
        for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(time));
        cursor.setAttribute('visibility', 'visible');
        hover(time);
      });
    }
    return picture;
  }

  // bars: [{ label, value, tip }], evenly spaced.
  function histogram({ bars, color, title, width = 320, height = 110 }) {
    const bottom = 18;
    const most = Math.max(1, ...bars.map((bar) => bar.value));
    const step = (width - 10) / Math.max(bars.length, 12);
    // So that labels neither touch each other nor leave the picture.
    const labelEvery = Math.ceil(58 / step);
    const parts = [svg('line', { class: 'axis', x1: 0, x2: width, y1: height - bottom, y2: height - bottom })];
    bars.forEach((bar, index) => {
      const tall = bar.value > 0 ? Math.max(1.5, (bar.value / most) * (height - bottom - 12)) : 0;
      parts.push(svg('rect', { x: 5 + index * step, y: height - bottom - tall, width: Math.max(1, step - 1.5), height: tall, fill: color }, svg('title', {}, bar.tip)));
      if (index % labelEvery === 0 && bar.label && 5 + index * step + 50 < width) parts.push(svg('text', { x: 5 + index * step, y: height - 4 }, bar.label));
    });
    return svg('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title }, parts);
  }

  // Bucket 2k begins at 2^k nanoseconds, bucket 2k + 1 at one and a half times that.
  const begins = (bucket) => 2 ** Math.floor(bucket / 2) * (bucket % 2 === 0 ? 1 : 1.5);

  function durations(report) {
    const { timeline } = report;
    const list = timeline.durations.map(([gpu, category, first, ...counts]) => {
      const name = timeline.categories[category];
      const total = counts.reduce((sum, value) => sum + value, 0);
      const bars = counts.map((value, index) => {
        const from = begins(first + index);
        return {
          value,
          label: format.time(from),
          tip: `${format.time(from)} to ${format.time(begins(first + index + 1))}: ${format.count(value)}`,
        };
      });
      const middle = median(counts, first, total);
      const title = `${name}${gpu ? ' on the GPU' : ''}: ${format.plural(total, 'operation', 'operations')}, half of them below ${format.time(middle)}`;
      return { total, node: el('figure', { class: 'panel', style: { margin: 0 } }, el('h3', {}, tables.swatch(name), `${name}${gpu ? ' · GPU' : ''}`), histogram({ bars, color: `var(--cat-${name})`, title }), el('figcaption', { class: 'hint' }, title.slice(title.indexOf(':') + 2))) };
    });
    list.sort((a, b) => b.total - a.total);
    if (list.length === 0) return [el('p', { class: 'quiet' }, 'This trace contains no operation with a duration.')];
    return list.map((entry) => entry.node);
  }

  // Copies by their size, a direction each.
  function sizes(report) {
    return (report.report?.transfers?.directions ?? []).map((way) => {
      const bins = way.sizes ?? [];
      if (bins.length === 0) return null;
      const first = Math.log2(Math.max(1, bins[0].from_bytes));
      const last = Math.log2(Math.max(1, bins.at(-1).from_bytes));
      const bars = [];
      for (let power = Math.round(first); power <= Math.round(last); power++) {
        const bin = bins.find((candidate) => Math.round(Math.log2(Math.max(1, candidate.from_bytes))) === power);
        const label = format.bytes(2 ** power);
        bars.push({ value: bin?.count ?? 0, label, tip: `from ${label}: ${format.plural(bin?.count ?? 0, 'copy', 'copies')}, ${format.bytes(bin?.bytes ?? 0)}` });
      }
      const title = `${way.direction}: ${format.plural(way.count, 'copy', 'copies')} of ${format.bytes(way.bytes)} in total`;
      return el('figure', { class: 'panel', style: { margin: 0 } }, el('h3', {}, tables.swatch('transfer'), `${way.direction} · size of copies`), histogram({ bars, color: 'var(--cat-transfer)', title }), el('figcaption', { class: 'hint' }, title.slice(title.indexOf(':') + 2)));
    });
  }

  function median(counts, first, total) {
    let seen = 0;
    for (let index = 0; index < counts.length; index++) {
      seen += counts[index];
      if (seen * 2 >= total) return begins(first + index + 1);
    }
    return 0;
  }

  return { levels, histogram, durations, sizes };
})();
