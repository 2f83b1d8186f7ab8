// What is known of one event: its arguments, result, stack, request, meaning. The page carries it for the spans it
// keeps, the server has it for all; both come out in one form:
// { type, name, cpu, context, arguments: [{ name, value, out }], operator, result, stack, request, meaning, parents, caused }

const eventOf = (() => {
  // Of a span that the page carries; null where it carries nothing.
  function embedded(timeline, { row, i }) {
    const number = row.text?.[i];
    if (!number) return null;
    let text;
    try {
      text = JSON.parse(timeline.texts.get(number));
    } catch {
      return null;
    }
    const fields = (list, out) => (list ?? []).map(([name, value]) => ({ name, value, out }));
    const request = text.i && {
      command: text.i.c,
      decoded: Object.fromEntries(text.i.d ?? []),
      fields: [...fields(text.i.a, false), ...fields(text.i.o, true)],
      result: text.i.r,
    };
    return {
      type: timeline.types[text.t],
      name: text.n,
      cpu: text.u,
      context: text.c,
      arguments: [...fields(text.a, false), ...fields(text.o, true)],
      // Work of a graph knows the operator that was captured.
      operator: (text.a ?? []).find(([name]) => name === 'origin.operator')?.[1],
      result: text.r,
      stack: text.s == null ? [] : (timeline.stacks[text.s] ?? []).map((frame) => timeline.frames[frame]),
      request,
      meaning: text.m,
    };
  }

  // What the server answers about an event.
  function served(answer) {
    const fields = (list) => (list ?? []).flatMap((field) => flat(field.name, field.value).map(([name, value]) => ({ name, value, out: field.out ?? false })));
    const meaning = answer.meaning;
    return {
      type: answer.type,
      name: answer.name,
      cpu: answer.cpu,
      device: answer.device,
      context: answer.context,
      arguments: fields(answer.arguments),
      result: answer.status?.name,
      stack: (answer.stack ?? []).map(frame),
      request: answer.ioctl && { command: answer.ioctl.command, decoded: {}, fields: fields(answer.ioctl.fields), result: answer.ioctl.result, words: answer.ioctl.words },
      meaning,
      parents: answer.parents ?? [],
      operator: answer.operator,
      // GPU work of a call, or the call of GPU work; what is inside of a call is seen below it.
      caused: [...(answer.caused ?? []).filter((work) => work.layer === 'gpu'), ...(answer.caused_by ? [answer.caused_by] : [])].map((work) => ({ ...work, name: work.label ?? work.name })),
      place: { start: answer.start_ns, duration: answer.duration_ns ?? 0, lane: answer.lane, depth: answer.depth },
    };
  }

  // The fields of a struct are lines of their own: config.gridDimX.
  function flat(name, value) {
    if (value == null || typeof value !== 'object' || Array.isArray(value)) return [[name, text(value)]];
    return Object.entries(value).flatMap(([field, inner]) => flat(`${name}.${field}`, inner));
  }

  function text(value) {
    if (value == null) return '–';
    if (Array.isArray(value)) return `[${value.map(text).join(',')}]`;
    if (typeof value === 'object') return `{${Object.entries(value).map(([field, inner]) => `${field}=${text(inner)}`).join(' ')}}`;
    return String(value);
  }

  function frame({ symbol, address, module, file, line }) {
    const base = (path) => path.split('/').pop();
    const place = file ? ` (${base(file)}${line ? `:${line}` : ''})` : module ? ` in ${base(module)}` : '';
    return `${symbol ?? address}${place}`;
  }

  const argument = (known, name) => known?.arguments.find((field) => field.name === name)?.value;

  function number(text) {
    const value = Number(text);
    return text == null || text === '' || !Number.isFinite(value) ? null : value;
  }

  // '[128, 1, 1]' or a list, as three numbers.
  function three(value) {
    const list = Array.isArray(value) ? value.map(Number) : (String(value ?? '').match(/\d+/g) ?? []).map(Number);
    return list.length === 3 ? list : null;
  }

  // How a kernel was launched, from its own record or from its launch's.
  function launchOf(known, call) {
    const grid = three(argument(known, 'grid') ?? known?.meaning?.grid ?? call?.meaning?.grid);
    const block = three(argument(known, 'block') ?? known?.meaning?.block ?? call?.meaning?.block);
    if (!grid || !block) return null;
    const registers = number(argument(known, 'registers') ?? known?.meaning?.registers);
    const fixed = number(argument(known, 'static_shared') ?? known?.meaning?.shared_static);
    const dynamic = number(argument(known, 'dynamic_shared')) ?? number(known?.meaning?.shared ?? call?.meaning?.shared);
    return { grid, block, registers, fixed, dynamic, local: number(argument(known, 'local')), graph: argument(known, 'graph'), node: argument(known, 'node') };
  }

  return { embedded, served, argument, number, three, launchOf };
})();
