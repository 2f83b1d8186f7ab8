// How numbers read: one unit at a time, three digits that matter, a thin space before the unit.

const format = (() => {
  const SPACE = '\u2009';

  function significant(value) {
    if (value === 0) return '0';
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return value.toFixed(digits);
  }

  function time(ns) {
    if (ns == null || Number.isNaN(ns)) return '–';
    const sign = ns < 0 ? '−' : '';
    const size = Math.abs(ns);
    if (size < 999.5) return `${sign}${Math.round(size)}${SPACE}ns`;
    if (size < 999.5e3) return `${sign}${significant(size / 1e3)}${SPACE}µs`;
    if (size < 999.5e6) return `${sign}${significant(size / 1e6)}${SPACE}ms`;
    if (size < 120e9) return `${sign}${significant(size / 1e9)}${SPACE}s`;
    const minutes = Math.floor(size / 60e9);
    if (minutes < 120) return `${sign}${minutes}${SPACE}min ${Math.floor(size / 1e9) % 60}${SPACE}s`;
    return `${sign}${Math.floor(minutes / 60)}${SPACE}h ${minutes % 60}${SPACE}min`;
  }

  // A point in time, exact enough to tell it from its neighbours `step` nanoseconds away.
  function moment(ns, step) {
    const [unit, name] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / Math.max(step, 1)))));
    return `${(ns / unit).toFixed(digits)}${SPACE}${name}`;
  }

  function bytes(count) {
    if (count == null || Number.isNaN(count)) return '–';
    const size = Math.abs(count);
    const sign = count < 0 ? '−' : '';
    if (size < 1024) return `${sign}${size}${SPACE}B`;
    const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
    let power = Math.min(units.length, Math.floor(Math.log2(size) / 10));
    if (size / 1024 ** power >= 999.5 && power < units.length) power += 1;
    return `${sign}${significant(size / 1024 ** power)}${SPACE}${units[power - 1]}`;
  }

  function rate(bytesPerSecond) {
    if (bytesPerSecond == null || !Number.isFinite(bytesPerSecond)) return '–';
    const units = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];
    let value = bytesPerSecond;
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) {
      value /= 1000;
      unit += 1;
    }
    return `${significant(value)}${SPACE}${units[unit]}`;
  }

  const grouped = new Intl.NumberFormat('en', { useGrouping: true, maximumFractionDigits: 0 });

  function count(value) {
    return value == null || Number.isNaN(value) ? '–' : grouped.format(value).replaceAll(',', SPACE);
  }

  function share(part) {
    if (part == null || !Number.isFinite(part)) return '–';
    const percent = part * 100;
    if (percent > 0 && percent < 0.1) return `<${SPACE}0.1${SPACE}%`;
    return `${percent.toFixed(percent < 99.95 ? 1 : 0)}${SPACE}%`;
  }

  function plural(number, one, many) {
    return `${count(number)} ${number === 1 ? one : many}`;
  }

  // Control characters and marks that reorder text are shown as what they are: a name must not
  // be able to look like another one.
  const STRANGE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

  function visible(text) {
    return String(text).replace(STRANGE, (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
  }

  // A kernel's name as short as it can be told: without its return type; `room` letters or fewer
  // where its parameters can go.
  function short(name, room) {
    let text = name.replace(/^(void|static|inline|__global__)\s+/, '');
    if (text.length > room) text = text.replace(/\(.*$/s, '');
    if (text.length > room) text = text.replace(/<.*$/s, '<…>');
    return text;
  }

  return { time, moment, bytes, rate, count, share, plural, visible, short };
})();
