// The data inside the page. The order of reading is the order of writing in the exporter's payload.

const data = (() => {
  const EMPTY = 255;

  // `suffix`: '-1' for the second trace of `cutrace view A B`.
  async function load(suffix = '') {
    return unpack(JSON.parse(byId(`data-report${suffix}`).textContent), byId(`data-timeline${suffix}`).textContent);
  }

  async function unpack(report, packed) {
    const text = atob(packed);
    const deflated = Uint8Array.from(text, (character) => character.charCodeAt(0));
    const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const timeline = { ...decode(bytes), whole: report.whole };
    return { ...report, served: report.server, server: null, timeline };
  }

  class Input {
    constructor(bytes) {
      this.bytes = bytes;
      this.at = 0;
    }

    byte() {
      return this.bytes[this.at++];
    }

    // Beyond 2^53 the last digits go; no duration of a run is that long.
    varint() {
      let value = 0;
      let scale = 1;
      for (;;) {
        const byte = this.bytes[this.at++];
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
        scale *= 128;
      }
    }

    zigzag() {
      const value = this.varint();
      return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }

    take(length) {
      this.at += length;
      return this.bytes.subarray(this.at - length, this.at);
    }
  }

  function decode(bytes) {
    const input = new Input(bytes);
    const length = input.varint();
    const timeline = JSON.parse(new TextDecoder().decode(input.take(length)));
    shorten(timeline);
    const rows = readRows(input, timeline.rows);
    readSpans(input, rows);
    readCells(input, rows);
    timeline.flame = readFlame(input, timeline.flame);
    timeline.texts = readTexts(input, rows, timeline.details);
    stack(timeline, rows);
    return timeline;
  }

  // Puts rows into their lanes.
  function stack(timeline, rows) {
    timeline.rows = rows;
    timeline.lanes.forEach((lane, index) => {
      lane.index = index;
      lane.rows = [];
    });
    for (const row of rows) timeline.lanes[row.lane].rows.push(row);
    for (const lane of timeline.lanes) {
      lane.rows.sort((a, b) => a.depth - b.depth);
      lane.rows.forEach((row, at) => (row.place = at));
    }
  }

  // `short[i]` is what `names[i]` is shown as.
  function shorten(timeline) {
    timeline.short = timeline.names.slice();
    for (const [index, text] of timeline.short_names ?? []) timeline.short[index] = text;
  }

  // A name's place among the page's names, which grow. `shown`: what it is shown as, if it is new.
  function intern(timeline, name, shown = name) {
    timeline.places ??= new Map(timeline.names.map((known, index) => [known, index]));
    let index = timeline.places.get(name);
    if (index == null) {
      index = timeline.names.push(name) - 1;
      timeline.short.push(shown);
      timeline.places.set(name, index);
    }
    return index;
  }

  function readRows(input, count) {
    const rows = [];
    for (let index = 0; index < count; index++) {
      rows.push({
        index,
        lane: input.varint(),
        depth: input.varint(),
        total: input.varint(),
        kept: input.varint(),
        cellCount: input.varint(),
        firstCell: input.varint(),
      });
    }
    return rows;
  }

  function readSpans(input, rows) {
    const total = rows.reduce((sum, row) => sum + row.kept, 0);
    const all = {
      start: new Float64Array(total),
      duration: new Float64Array(total),
      inside: new Float64Array(total),
      name: new Uint32Array(total),
      label: new Uint32Array(total),
      category: new Uint8Array(total),
      open: new Uint8Array(total),
      layer: new Uint8Array(total),
      status: new Float64Array(total), // NaN where it is not known
      detail: new Uint8Array(total),
      amount: new Float64Array(total),
      id: new Float64Array(total),
      correlation: new Float64Array(total),
    };
    const running = (column, next) => {
      let at = 0;
      for (const row of rows) {
        let value = 0;
        for (let i = 0; i < row.kept; i++) column[at++] = value += next();
      }
    };
    const each = (column, next) => {
      for (let i = 0; i < total; i++) column[i] = next();
    };
    running(all.start, () => input.varint());
    each(all.duration, () => input.varint());
    each(all.inside, () => input.varint());
    each(all.name, () => input.varint());
    for (let i = 0; i < total; i++) {
      const label = input.varint();
      all.label[i] = label === 0 ? all.name[i] : label - 1;
    }
    for (let i = 0; i < total; i++) {
      const byte = input.byte();
      all.category[i] = byte & 0x7f;
      all.open[i] = byte >> 7;
    }
    each(all.layer, () => input.byte());
    each(all.status, () => {
      const value = input.varint();
      if (value === 0) return NaN;
      return (value - 1) % 2 === 0 ? (value - 1) / 2 : -value / 2;
    });
    each(all.detail, () => input.byte());
    for (let i = 0; i < total; i++) if (all.detail[i] > 0) all.amount[i] = input.varint();
    running(all.id, () => input.zigzag());
    running(all.correlation, () => input.zigzag());
    let at = 0;
    for (const row of rows) {
      for (const [name, column] of Object.entries(all)) row[name] = column.subarray(at, at + row.kept);
      at += row.kept;
    }
  }

  function readCells(input, rows) {
    const total = rows.reduce((sum, row) => sum + row.cellCount, 0);
    const category = input.take(total);
    const fill = new Uint8Array(total);
    const name = new Uint32Array(total);
    const count = new Uint32Array(total);
    for (let i = 0; i < total; i++) if (category[i] !== EMPTY) fill[i] = input.byte();
    for (let i = 0; i < total; i++) if (category[i] !== EMPTY) name[i] = input.varint();
    for (let i = 0; i < total; i++) if (category[i] !== EMPTY) count[i] = input.varint();
    // How many of them have that name; odd: exactly, even: at least.
    const most = new Uint32Array(total);
    for (let i = 0; i < total; i++) if (category[i] !== EMPTY) most[i] = input.varint();
    let at = 0;
    for (const row of rows) {
      const part = (column) => column.subarray(at, at + row.cellCount);
      row.cells =
        row.cellCount === 0
          ? null
          : { first: row.firstCell, category: part(category), fill: part(fill), name: part(name), count: part(count), most: part(most) };
      at += row.cellCount;
    }
  }

  function readFlame(input, count) {
    const nodes = [];
    for (let i = 0; i < count; i++) {
      const node = {
        parent: input.varint() - 1,
        name: input.varint(),
        category: input.byte(),
        count: input.varint(),
        // Time, bytes allocated, bytes moved.
        total: [input.varint(), input.varint(), input.varint()],
        own: [input.varint(), input.varint(), input.varint()],
        children: [],
      };
      node.up = node.parent >= 0 ? nodes[node.parent] : null;
      node.up?.children.push(node);
      nodes.push(node);
    }
    return { host: nodes[0], gpu: nodes[1] };
  }

  // Details of spans: which text each has, and the texts, read when somebody asks.
  function readTexts(input, rows, count) {
    let last = 0;
    for (const row of rows) {
      row.text = new Uint32Array(row.kept);
      for (let i = 0; i < row.kept; i++) {
        const value = input.varint();
        row.text[i] = value === 1 ? last + 1 : value === 0 ? 0 : value - 1;
        last = Math.max(last, row.text[i]);
      }
    }
    const ends = new Uint32Array(count + 1);
    for (let i = 1; i <= count; i++) ends[i] = ends[i - 1] + input.varint();
    const bytes = input.take(ends[count]);
    const decoder = new TextDecoder();
    let lower = null;
    return {
      get: (number) => decoder.decode(bytes.subarray(ends[number - 1], ends[number])),
      // The texts in which something occurs, by number.
      having(wanted) {
        lower ??= Array.from({ length: count + 1 }, (_, number) => (number === 0 ? '' : decoder.decode(bytes.subarray(ends[number - 1], ends[number])).toLowerCase()));
        const found = new Uint8Array(count + 1);
        for (let number = 1; number <= count; number++) if (lower[number].includes(wanted)) found[number] = 1;
        return found;
      },
    };
  }

  return { load, unpack, stack, intern, EMPTY };
})();
