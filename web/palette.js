// One colour for each category, the same everywhere; the style sheet has them, by theme.

const palette = (() => {
  const root = document.documentElement;
  const listeners = [];
  let colors = {};

  function read() {
    const style = getComputedStyle(root);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    colors = {
      paper: get('paper'),
      panel: get('panel'),
      ink: get('ink'),
      soft: get('soft'),
      faint: get('faint'),
      line: get('line'),
      accent: get('accent'),
      bad: get('bad'),
      gap: get('gap'),
    };
    colors.of = (category) => {
      const key = `cat-${category}`;
      colors[key] ??= get(key) || get('cat-other');
      return colors[key];
    };
    colors.on = (category) => {
      const key = `on-${category}`;
      colors[key] ??= readable(colors.of(category));
      return colors[key];
    };
  }

  // Black or white, whichever reads better on the colour.
  function readable(color) {
    const parts = /^#(..)(..)(..)$/.exec(color);
    if (!parts) return '#ffffff';
    const [red, green, blue] = parts.slice(1).map((part) => (parseInt(part, 16) / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.19 ? '#101418' : '#ffffff';
  }

  function set(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    read();
    for (const listener of listeners) listener();
  }

  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', () => set(root.dataset.theme));

  // On paper everything is light. Paper does not wait for the next frame: `now` draws at once.
  function onPaper(now) {
    matchMedia('print').addEventListener('change', () => {
      set(root.dataset.theme);
      now();
    });
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
  }

  read();
  return {
    get colors() {
      return colors;
    },
    set,
    onPaper,
    isDark,
    changed: (listener) => listeners.push(listener),
  };
})();
