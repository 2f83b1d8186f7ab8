// Tables of what kernels were launched with, and of what was asked of the kernel driver.

const launches = (() => {
  const product = (sides) => sides.reduce((all, side) => all * side, 1);
  const sizes = (sides) => sides.join('×');

  function shapes(report, go) {
    const { timeline } = report;
    const rows = (timeline.shapes ?? []).map((row) => {
      const launch = { grid: row.grid, block: row.block, registers: row.registers, fixed: 0, dynamic: row.shared };
      return { ...row, name: timeline.short[row.name], full: timeline.names[row.name], occupancy: occupancy.of(launch, occupancy.limitsOf(timeline, row.device)) };
    });
    if (rows.length === 0) return null;
    const ran = rows.some((row) => row.executions > 0);
    const known = rows.some((row) => row.occupancy);
    const most = Math.max(...rows.map((row) => row.total_ns ?? 0), 1);
    return {
      id: 'shapes',
      title: 'Launch shapes',
      rows,
      caption: `Kernels by launch configuration.${known ? ' Occupancy: the share of a multiprocessor’s threads that its blocks can fill, and what limits it.' : ' Occupancy is unknown: the trace does not contain the limits of the GPU’s multiprocessors.'}${timeline.shapes_left_out > 0 ? ` ${format.count(timeline.shapes_left_out)} uses of further shapes are not here.` : ''}`,
      sort: ran ? 1 : 2,
      search: (row) => `${row.name} ${row.full} ${sizes(row.grid)} ${sizes(row.block)}`,
      open: (row) => go.operation(row.op_id, row.full),
      columns: [
        { title: 'kernel', key: (row) => row.name, name: true, tip: (row) => row.full, mark: () => tables.swatch('kernel') },
        ran && { title: 'GPU time', key: (row) => row.total_ns, number: true, show: (row) => tables.bar(format.time(row.total_ns), row.total_ns / most) },
        { title: ran ? 'ran' : 'launches', key: (row) => (ran ? row.executions : row.launches), number: true, show: (row) => format.count(ran ? row.executions : row.launches) },
        ran && { title: 'average', key: (row) => row.total_ns / Math.max(row.executions, 1), number: true, show: (row) => format.time(row.total_ns / Math.max(row.executions, 1)) },
        { title: 'grid', key: (row) => product(row.grid), number: true, show: (row) => sizes(row.grid) },
        { title: 'block', key: (row) => product(row.block), number: true, show: (row) => sizes(row.block) },
        { title: 'registers', key: (row) => row.registers, number: true, show: (row) => row.registers ?? '–' },
        { title: 'shared', key: (row) => row.shared, number: true, show: (row) => format.bytes(row.shared) },
        known && { title: 'occupancy', key: (row) => row.occupancy?.share, number: true, show: (row) => (row.occupancy ? `${row.occupancy.partly ? '≤ ' : ''}${format.share(row.occupancy.share)}` : '–'), tip: (row) => occupancy.words(row.occupancy) },
        known && { title: 'limited by', key: (row) => row.occupancy?.limit.join(', ') ?? '–' },
      ].filter(Boolean),
    };
  }

  function requests(report, go) {
    const found = report.report?.ioctls;
    if (!found?.commands?.length) return null;
    const most = Math.max(...found.commands.map((row) => row.total_ns), 1);
    const name = (row) => (row.name ?? `0x${row.cmd.toString(16)}`).replace(/^NV_ESC_/, '').replace(/ [A-Za-z0-9_]*?(?:_CTRL_CMD_|_CTRL_|CtrlCmd)/, ' ');
    const time = (title, key) => ({ title, key, number: true, show: (row) => format.time(key(row)) });
    return {
      id: 'requests',
      title: 'ioctls',
      rows: found.commands,
      caption: `Requests to the kernel driver, by command: ${format.plural(found.calls, 'call', 'calls')}, ${format.time(found.total_ns)}.`,
      sort: 2,
      search: (row) => `ioctl ${row.name ?? ''} ${name(row)} 0x${row.cmd.toString(16)}`,
      open: (row) => go.operation(row.max_op_id, name(row)),
      columns: [
        { title: 'command', key: name, name: true, tip: (row) => row.name },
        { title: 'calls', key: (row) => row.calls, number: true, show: (row) => format.count(row.calls) },
        { title: 'total', key: (row) => row.total_ns, number: true, show: (row) => tables.bar(format.time(row.total_ns), row.total_ns / most) },
        time('average', (row) => row.average_ns),
        time('p50', (row) => row.p50_ns),
        time('p99', (row) => row.p99_ns),
        time('max', (row) => row.max_ns),
        { title: 'failed', key: (row) => row.failed, number: true, show: (row) => el('span', { class: row.failed > 0 ? 'bad' : null }, format.count(row.failed)) },
        { title: 'number', key: (row) => row.cmd, number: true, show: (row) => `0x${row.cmd.toString(16)}` },
      ],
    };
  }

  return { shapes, requests };
})();
