// What was found, ranked, each with a way to its place in the timeline.

const findings = (() => {
  function create(report, go) {
    const list = report.report?.findings?.findings ?? report.report?.findings;
    if (!Array.isArray(list)) return el('p', { class: 'quiet' }, 'This report holds no findings.');
    if (list.length === 0) return el('p', { class: 'quiet' }, 'Nothing stands out: no rule found a problem in this trace.');
    return el('div', {}, list.map((finding, index) => one(finding, index, go)));
  }

  function one(finding, index, go) {
    return el('article', { class: `finding ${finding.severity ?? ''}`, 'aria-label': finding.title }, el('div', { class: 'rank' }, String(index + 1)), el('div', {}, el('h3', {}, finding.title)));
  }

  return { create };
})();
