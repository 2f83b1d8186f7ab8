// The lanes as they lie below each other: GPUs with their streams, then processes with their threads, then
// multiprocessors, if there are many. Threads that did nothing but wait are a group that is closed at first.

const lanes = (() => {
  const ROW = 17;
  const HEADER = 24;
  const GAP = 7;
  // More multiprocessors than these have a group of their own below, closed at first: they would hide the threads.
  const FEW_SMS = 16;

  function groupsOf(timeline, meta, processes) {
    const groups = new Map();
    const sms = timeline.lanes.filter((lane) => lane.kind === 'probes' && lane.sm != null && lane.rows.length > 0);
    const apart = sms.length > FEW_SMS;
    const offCpu = timeline.categories.indexOf('off-cpu');
    for (const lane of timeline.lanes) {
      if (lane.rows.length === 0) continue;
      const below = apart && lane.kind === 'probes' && lane.sm != null;
      const gpu = lane.device != null && !below;
      const asleep = lane.kind === 'thread' && lane.pid !== lane.tid && lane.by_category[offCpu] > 0 && lane.by_category.every((time, category) => time === 0 || category === offCpu);
      const key = below ? `sms ${lane.device}` : gpu ? `gpu ${lane.device}` : lane.kind === 'rest' ? 'rest' : asleep ? `asleep ${lane.pid}` : `process ${lane.pid}`;
      if (!groups.has(key)) {
        groups.set(key, { key, gpu, below, asleep, number: lane.device ?? lane.pid, lanes: [], collapsed: below || asleep });
      }
      groups.get(key).lanes.push(lane);
    }
    const list = [...groups.values()];
    for (const group of list) {
      group.label = groupLabel(group, meta, processes);
      const contexts = new Set(group.lanes.map((lane) => lane.context));
      for (const lane of group.lanes) {
        lane.label = laneLabel(lane, contexts.size > 1);
        lane.labels = [lane.label, ...briefLabels(lane, contexts.size > 1)];
      }
      group.lanes.sort((a, b) => order(a) - order(b) || (a.sm ?? -1) - (b.sm ?? -1) || b.busy - a.busy);
    }
    const rank = (group) => (group.gpu ? 0 : group.key === 'rest' ? 3 : group.below ? 2 : 1);
    return list.sort((a, b) => rank(a) - rank(b) || a.number - b.number || Number(a.asleep ?? 0) - Number(b.asleep ?? 0));
  }

  const order = (lane) => (lane.kind === 'thread' && lane.pid === lane.tid ? 0 : lane.kind === 'probes' || lane.kind === 'managed' ? 2 : 1);

  // 'python3 train.py': the program without its folders, and what it was given.
  function processName(pid, meta, processes) {
    const known = (processes ?? []).find((process) => process.pid === pid);
    const words = known?.command?.length ? known.command : pid === meta.pid ? (meta.command ?? []) : [];
    const name = known?.name ?? words[0]?.split('/').pop() ?? '';
    const title = [name, ...words.slice(1)].join(' ');
    return title.length > 60 ? `${title.slice(0, 59)}…` : title;
  }

  function groupLabel(group, meta, processes) {
    if (group.gpu) {
      const gpu = (meta.gpus ?? []).find((candidate) => candidate.index === group.number);
      const name = gpu?.name ? ` · ${gpu.name}` : '';
      return `GPU ${group.number}${name}${gpu?.simulated ? ' (simulated)' : ''}`;
    }
    if (group.below) return `GPU ${group.number} · ${group.lanes.length} multiprocessors`;
    if (group.asleep) return `Process ${group.number} · ${format.plural(group.lanes.length, 'thread', 'threads')} that only waited, outside of traced calls`;
    if (group.key === 'rest') return 'More threads and streams';
    const name = processName(group.number, meta, processes);
    return `Process ${group.number}${name ? ` · ${name}` : ''}`;
  }

  function laneLabel(lane, withContext) {
    if (lane.kind === 'thread') return lane.pid === lane.tid ? `${lane.tid} main` : `${lane.tid}`;
    if (lane.kind === 'probes') return lane.sm == null ? 'probes' : `SM ${lane.sm}`;
    if (lane.kind === 'managed') return 'managed memory';
    if (lane.kind === 'rest') return 'shared lane';
    const stream = lane.stream == null || lane.stream === '0' ? 'default stream' : `stream ${lane.stream}`;
    return withContext && lane.context ? `${stream} · ctx ${lane.context}` : stream;
  }

  // Shorter and shorter: streams and contexts by the ends of their handles, which differ.
  function briefLabels(lane, withContext) {
    if (lane.kind !== 'stream') return [];
    const end = (handle) => handle.replace(/^0x.*(?=.{4}$)/, '…');
    const isDefault = lane.stream == null || lane.stream === '0';
    const [long, short] = isDefault ? ['default stream', 'default'] : [`stream ${end(lane.stream)}`, end(lane.stream)];
    return withContext && lane.context ? [`${long} · ctx ${lane.context.slice(-4)}`, `${short} · ${lane.context.slice(-3)}`] : [short];
  }

  // What a reader is told: 'thread 12', 'GPU 0 stream 7'.
  function fullLabel(lane) {
    if (lane.kind === 'thread') return `thread ${lane.label}`;
    if (lane.kind === 'rest') return 'threads without a lane of their own';
    return `GPU ${lane.device} ${lane.label}`;
  }

  // Every header and lane with its place.
  function layout(groups) {
    const items = [];
    let y = 0;
    for (const group of groups) {
      items.push({ group, y, height: HEADER });
      group.y = y;
      y += HEADER;
      for (const lane of group.lanes) {
        lane.y = group.collapsed ? null : y;
        lane.group = group;
        if (group.collapsed) continue;
        const height = lane.rows.length * ROW + GAP;
        items.push({ lane, y, height });
        y += height;
      }
    }
    return { items, height: y };
  }

  // The first item that reaches below `y`.
  function firstAt(items, y) {
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle].y + items[middle].height > y) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  return { ROW, HEADER, GAP, groupsOf, processName, layout, firstAt, fullLabel };
})();
