// Tables of what the program and its framework call their work: operators, ranges (NVTX), kinds of GPU work.

const operators = (() => {
  const time = (title, key, hint) => ({ title, key, show: (row) => format.time(key(row)), number: true, hint });
  const count = (title, key) => ({ title, key, show: (row) => format.count(key(row)), number: true });
  const barred = (title, rows, key, hint) => {
    const most = Math.max(1, ...rows.map(key));
    return { ...time(title, key, hint), show: (row) => tables.bar(format.time(key(row)), key(row) / most) };
  };

  function all(report, go) {
    return [ofFramework(report, go), ofProgram(report, go), kinds(report)].filter(Boolean);
  }

  function ofFramework(report, go) {
    const found = report.report?.operators;
    const rows = found?.operators ?? [];
    if (rows.length === 0) return null;
    const gpu = rows.some((row) => row.gpu_operations > 0);
    const outside = found.outside > 0 ? ` ${format.count(found.outside)} of ${format.count(found.inside + found.outside)} GPU operations were launched outside any operator.` : '';
    return {
      id: 'operators',
      title: 'Operators',
      rows,
      caption: `The framework’s operators by name. Total includes the operators called inside, self does not. Work of a CUDA graph counts for the operator that was captured.${outside}${leftOut(found.left_out, 'operators')}`,
      sort: gpu ? 2 : 3,
      search: (row) => `${row.name} ${row.scope} ${row.line ?? ''}`,
      open: (row) => go.operation(row.max_op_id, row.name),
      columns: [
        { title: 'operator', key: (row) => row.name, name: true },
        count('count', (row) => row.count + (row.open ?? 0)),
        gpu && barred('GPU self', rows, (row) => row.self_gpu_ns),
        gpu && time('GPU total', (row) => row.gpu_ns),
        gpu && count('GPU operations', (row) => row.gpu_operations),
        gpu ? time('host self', (row) => row.self_ns) : barred('host self', rows, (row) => row.self_ns),
        time('host total', (row) => row.total_ns),
        time('longest', (row) => row.max_ns),
        { title: 'kind', key: (row) => row.scope },
        rows.some((row) => row.line) && { title: 'line', key: (row) => row.line ?? '' },
      ].filter(Boolean),
    };
  }

  // Only so many names have a row.
  const leftOut = (number, what) => (number > 0 ? ` ${format.count(number)} later ${what} with other names are left out.` : '');

  function ofProgram(report, go) {
    const rows = report.report?.ranges?.ranges ?? [];
    if (rows.length === 0) return null;
    return {
      id: 'ranges',
      title: 'Ranges',
      rows,
      caption: `NVTX ranges by name. GPU time is how long any work launched inside was running.${leftOut(report.report.ranges.left_out, 'ranges')}`,
      sort: 2,
      search: (row) => `${row.name} ${row.domain ?? ''}`,
      open: (row) => go.operation(row.max_op_id, row.name),
      columns: [
        { title: 'range', key: (row) => row.name, name: true },
        count('count', (row) => row.count),
        barred('total', rows, (row) => row.total_ns),
        time('longest', (row) => row.max_ns),
        count('GPU operations', (row) => row.gpu_operations),
        time('GPU time', (row) => row.gpu_ns),
        rows.some((row) => row.domain) && { title: 'domain', key: (row) => row.domain ?? '–' },
      ].filter(Boolean),
    };
  }

  function kinds(report) {
    const rows = report.report?.kernel_classes ?? [];
    if (rows.length < 2) return null;
    return {
      id: 'kinds',
      title: 'Kinds of GPU work',
      rows,
      caption: 'GPU operations by what they do, guessed from their names. Times are summed, even where operations overlap.',
      sort: 2,
      search: (row) => row.class,
      columns: [
        { title: 'kind', key: (row) => row.class },
        count('operations', (row) => row.executions),
        barred('GPU time', rows, (row) => row.total_ns),
        { title: 'share', key: (row) => row.share, number: true, show: (row) => format.share(row.share) },
      ],
    };
  }

  return { all };
})();
