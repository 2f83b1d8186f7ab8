// What the GPUs were sampled at: load, memory, power, clocks, as small lines.

const samplesView = (() => {
  // Which numbers lie in one picture, and how they read.
  const PICTURES = [
    { title: 'Utilisation', top: 100, unit: (value) => `${value} %`, lines: [['gpu_percent', 'GPU', 'kernel'], ['memory_percent', 'memory', 'transfer']] },
    { title: 'Memory in use', unit: (value) => format.bytes(value), lines: [['memory_used_bytes', 'in use', 'memory']] },
    { title: 'Power', unit: (value) => `${(value / 1000).toFixed(value < 100000 ? 1 : 0)} W`, lines: [['power_mw', 'power', 'sync']] },
    { title: 'Clocks', unit: (value) => `${format.count(value)} MHz`, lines: [['sm_clock_mhz', 'SM', 'kernel'], ['memory_clock_mhz', 'memory', 'transfer']] },
    { title: 'Temperature', unit: (value) => `${value} °C`, lines: [['temperature_c', 'temperature', 'module']] },
    { title: 'PCIe', unit: (value) => `${format.bytes(value)}/s`, lines: [['pcie_rx_bytes_per_s', 'to the GPU', 'transfer'], ['pcie_tx_bytes_per_s', 'from the GPU', 'graph']] },
  ];

  function create(report, go) {
    const rows = report.report?.samples ?? [];
    if (rows.length === 0) return null;
    const end = Math.max(report.timeline.end_ns, 1);
    const devices = [...new Set(rows.map((row) => row.device ?? null))];
    return devices.map((device) => {
      const mine = rows.filter((row) => (row.device ?? null) === device);
      const pictures = PICTURES.map((picture) => one(picture, mine, device, end, go)).filter(Boolean);
      return pictures.length > 0 && el('div', { style: { marginTop: '14px' } }, el('h3', {}, `GPU ${device ?? ''}, sampled`), el('div', { class: 'samples' }, pictures));
    });
  }

  function one(picture, rows, device, end, go) {
    const found = picture.lines
      .map(([name, label, category]) => ({ row: rows.find((row) => row.name === name), label, color: `var(--cat-${category})` }))
      .filter((line) => line.row?.curve?.peaks?.length > 0);
    if (found.length === 0) return null;
    const labels = found.map(({ row, label }) => `${label} ${picture.unit(row.least)} to ${picture.unit(row.most)}, ${picture.unit(row.mean)} on average`);
    const series = found.map(({ row, label, color }) => ({ label, color, bin: row.curve.bin_ns, values: row.curve.peaks, final: row.last }));
    const title = `${picture.title} of GPU ${device ?? ''} over time: ${labels.join('; ')}`;
    return el('figure', { class: 'panel', style: { margin: 0 } },
      el('h3', {}, picture.title),
      charts.levels({ series, end, unit: picture.unit, title, width: 560, height: 130, marks: 4, top: picture.top, open: go.moment }),
      el('figcaption', { class: 'hint' }, found.map(({ color }, index) => [el('i', { class: 'swatch', style: { background: color } }), `${labels[index]}. `])));
  }

  return { create };
})();
