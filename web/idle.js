// When the GPU had nothing to do, and what the host did meanwhile.

const idleView = (() => {
  function create(report) {
    return el('p', { class: 'quiet' }, report.report?.idle ? '' : 'This report holds no idle gaps.');
  }

  return { create };
})();
