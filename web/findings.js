// What was found, ranked, each with its numbers, advice and a way to its place in the timeline.

const findings = (() => {
  const SEVERITY = { high: 'High', medium: 'Medium', low: 'Low', note: 'Note' };

  const SURE = { certain: 'measured', likely: 'likely', hint: 'a hint' };

  function create(report, go) {
    const list = report.report?.findings;
    if (!Array.isArray(list)) return el('p', { class: 'quiet' }, 'This report contains no findings.');
    if (list.length === 0) return el('p', { class: 'quiet' }, 'No problems found in this trace.');
    return el('ol', { class: 'findings' }, list.map((finding, index) => one(finding, index, go)));
  }

  function one(finding, index, go) {
    const show = () => open(finding, go);
    const item = el(
      'li',
      { class: `finding ${finding.severity ?? ''}` },
      el('div', { class: 'rank', 'aria-hidden': 'true' }, String(index + 1)),
      el('h3', {}, finding.title),
      el('div', { class: 'worth' }, cost(finding), el('span', { class: `severity ${finding.severity}` }, SEVERITY[finding.severity] ?? finding.severity)),
      el(
        'div',
        { class: 'body' },
        el('p', {}, finding.detail),
        el('p', { class: 'advice' }, finding.advice),
        finding.confidence && el('p', { class: 'quiet' }, `Confidence: ${SURE[finding.confidence] ?? finding.confidence}.`),
        el('div', { class: 'foot' }, evidence(finding, go), el('button', { type: 'button', class: 'link', onclick: show, 'aria-label': `Show in the timeline: ${finding.title}` }, 'Show in the timeline →')),
      ),
    );
    return dom.clickable(item, show);
  }

  // Its stretch of time, or else its first event.
  function open(finding, go) {
    if (finding.to_ns > finding.from_ns) {
      const [from, to] = [go.relative(finding.from_ns), go.relative(finding.to_ns)];
      // One event says more about itself than the stretch it takes.
      if (finding.op_ids?.length === 1 && go.known(finding.op_ids[0])) go.operation(finding.op_ids[0]);
      else go.stretch(from, to);
    } else go.operation(finding.op_ids?.[0], null, { at_ns: finding.from_ns });
  }

  function cost(finding) {
    if (finding.cost_per_step_ns != null) return el('span', {}, `${format.time(finding.cost_per_step_ns)} per step, ${format.share(finding.share)}`);
    if (finding.cost_ns != null) return el('span', {}, `${format.time(finding.cost_ns)}, ${format.share(finding.share)}`);
    if (finding.cost_bytes != null) return el('span', {}, format.bytes(finding.cost_bytes));
    return null;
  }

  function evidence(finding, go) {
    const ids = (finding.op_ids ?? []).slice(0, 8);
    const numbers = finding.numbers ?? [];
    if (ids.length === 0 && numbers.length === 0) return null;
    return el(
      'details',
      { class: 'evidence' },
      el('summary', {}, 'Evidence'),
      numbers.length > 0 && details.facts(numbers.map(({ name, value }) => [words(name), amount(name, value)])),
      ids.length > 0 && el('p', {}, 'Events: ', ids.map((id, index) => [index > 0 && ', ', el('button', { class: 'link', onclick: () => go.operation(id, null, { at_ns: finding.from_ns }) }, String(id))]), finding.op_ids.length > ids.length && ` and ${format.count(finding.op_ids.length - ids.length)} more`),
    );
  }

  // A figure's unit is the end of its name.
  const words = (name) => name.replace(/_(ns|bytes|percent)$/, '').replaceAll('_', ' ');

  function amount(name, value) {
    if (name.endsWith('_ns')) return format.time(value);
    if (name.endsWith('bytes_per_second')) return format.rate(value);
    if (name.endsWith('bytes')) return format.bytes(value);
    if (name.endsWith('_percent')) return `${format.count(value)}\u2009%`;
    return format.count(value);
  }

  return { create };
})();
