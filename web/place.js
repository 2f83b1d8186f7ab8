// What the address keeps: the part of the timeline in view, what is selected, tables and search.
// A copied address shows the same view.

const place = (() => {
  let state = parse();
  let timer = 0;

  function parse() {
    return new URLSearchParams(location.hash.slice(1));
  }

  function get(key) {
    return state.get(key);
  }

  function set(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value == null || value === '') state.delete(key);
      else state.set(key, String(value));
    }
    clearTimeout(timer);
    timer = setTimeout(write, 150);
  }

  function write() {
    const hash = state.toString();
    history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
  }

  // The whole address, as it is now.
  function address() {
    write();
    return location.href;
  }

  // Only when the user edits the address or follows a link: our own changes fire no event.
  function changed(listener) {
    addEventListener('hashchange', () => {
      state = parse();
      listener();
    });
  }

  return { get, set, changed, address };
})();
