// The phases of the run and its loop, as a strip of words above the timeline.

const phasesView = (() => {
  const NAMES = { initialisation: 'Initialisation', loading: 'Loading', steady: 'Steady state', work: 'Work', teardown: 'Teardown' };

  function create(report, go) {
    return [strip(report, go), kept(report, go)];
  }

  // Where a file that has room for some of the calls has all of them.
  function kept({ whole, server }, go) {
    if (!whole || server) return null;
    const step = (whole[1] - whole[0]) / 100;
    return el(
      'p',
      { class: 'kept' },
      'This file does not contain every call. It has all calls ',
      el('button', { class: 'link', onclick: () => go.stretch(...whole) }, `from ${format.moment(whole[0], step)} to ${format.moment(whole[1], step)}`),
      ', a typical part of the loop, and elsewhere the longest, the failed, and those that findings mention. ',
      el('code', {}, 'cutrace view'),
      ' shows every call.',
    );
  }

  function strip(report, go) {
    const phases = report.report?.phases;
    if (!phases?.phases?.length || !report.watched.gpu) return null;
    const main = phases.loops?.[0];
    // Launches of all threads, which the loop's own thread does not know.
    const step = report.report?.working?.step;
    return el(
      'div',
      { class: 'phases' },
      el('span', {}, 'Phases:'),
      phases.phases.map((phase) =>
        el('button', { class: 'link', onclick: () => go.stretch(go.relative(phase.start_ns), go.relative(phase.end_ns)) }, `${NAMES[phase.kind] ?? phase.kind} ${format.time(phase.length_ns)}`),
      ),
      main && el('span', {}, `${format.count(main.iterations)} iterations${step ? ` of ${format.plural(Math.round(step.launches + (step.graph_launches ?? 0)), 'launch', 'launches')}` : ''}, ${format.time(main.p50_ns)} each (p99 ${format.time(main.p99_ns)}), longest `, el('button', { class: 'link', onclick: () => go.operation(main.max_op_id, main.kernel) }, format.time(main.max_ns))),
    );
  }

  return { create };
})();
