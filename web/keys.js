// Keys that work everywhere, and the page that lists them.

const keys = (() => {
  const LIST = [
    ['W  S', 'zoom in, zoom out'],
    ['A  D', 'earlier, later'],
    ['F', 'everything'],
    ['R', 'sum up what is in view: totals and flame graph'],
    ['← →  ↑ ↓', 'in the timeline: the next or previous call, the call inside or around it; with nothing selected, move the view'],
    ['Enter', 'zoom to the selection; with nothing selected, select the longest call'],
    ['Esc', 'close, clear'],
    ['/', 'search; Enter goes from match to match'],
    ['N  Shift N', 'next match, previous match'],
    ['T', 'to the timeline'],
    ['?', 'this list'],
  ];

  function create(view, find) {
    const dialog = byId('help');
    dom.replace(
      dialog,
      el('h2', { id: 'help-title' }, 'Keys'),
      el('dl', {}, LIST.map(([key, what]) => [el('dt', {}, key.split('  ').map((one) => el('kbd', {}, one))), el('dd', {}, what)])),
      el('p', {}, 'Mouse: the wheel zooms, dragging selects a time range and shows its totals, Shift and drag moves the view, a double click zooms to a call. Drag the strip above the timeline to move through the whole run.'),
      el('p', { class: 'quiet' }, 'A red edge marks a failed call. Pale cells that do not fill the height of a row summarise many calls. The page’s address contains the current view: copy it to come back here.'),
      el('p', { class: 'actions' }, el('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Close')),
    );
    byId('help-open').addEventListener('click', () => dialog.showModal());

    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
      if (event.target.closest('input, textarea, select')) return;
      if (handle(event)) event.preventDefault();
    });

    function handle(event) {
      switch (event.key) {
        case '/':
          find.focus();
          return true;
        case '?':
          dialog.showModal();
          return true;
        case 'n':
          find.next(1);
          return true;
        case 'N':
          find.next(-1);
          return true;
        case 't':
          byId('timeline').scrollIntoView();
          view.canvas.focus({ preventScroll: true });
          return true;
        case 'Escape':
          view.select(null);
          view.selectRange(null);
          return true;
        default:
          return timelineInput.anywhere(view, event);
      }
    }
  }

  return { create };
})();
