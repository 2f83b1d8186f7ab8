// What was run, where and how it was watched: with what could not be seen, said plainly.

const environment = (() => {
  function create(report) {
    const { meta, summary, timeline } = report;
    const hooks = meta.hooks ?? {};
    const program = [
      ['command', el('code', {}, (meta.command ?? []).join(' ') || 'unknown')],
      ['process', meta.pid ?? 'unknown'],
      ['exit status', summary?.exit ?? 'unknown'],
      ['started', meta.start_unix_ns ? new Date(meta.start_unix_ns / 1e6).toISOString().replace('T', ' ').replace('Z', ' UTC') : 'unknown'],
      ['traced for', format.time(timeline.end_ns)],
    ];
    const host = meta.host ?? {};
    const machine = [
      ['host', host.name || 'unknown'],
      ['system', [host.os, host.kernel, host.arch].filter(Boolean).join(', ') || 'unknown'],
      ['CPUs', host.cpus ?? 'unknown'],
      ['driver', meta.driver ?? 'unknown'],
      ['CUDA', meta.cuda ?? 'unknown'],
      ...(meta.gpus ?? []).map((gpu) => [`GPU ${gpu.index}`, `${gpu.name}${gpu.memory ? `, ${format.bytes(gpu.memory)}` : ''}${gpu.simulated ? ', simulated: times are not those of a GPU' : ''}${gpu.uuid ? `, ${gpu.uuid}` : ''}`]),
    ];
    const overhead = summary?.overhead;
    const clocks = summary?.clocks?.length ? summary.clocks : (meta.clocks ?? []);
    const watching = [
      ['cutrace', meta.cutrace || 'unknown'],
      ['hooked', hooks.total ? `${format.count(hooks.attached)} of ${format.count(hooks.total)} functions` : 'unknown'],
      ...(meta.backends ?? []).map((backend) => [`back end ${backend.name}`, backend.hooks?.total > 0 ? `${format.count(backend.hooks.attached)} of ${format.count(backend.hooks.total)} functions` : 'used']),
      ['events', summary ? format.count(summary.events) : 'the trace has no summary at its end: it was cut off'],
      ['lost', lost(summary, timeline)],
      ['never ended', summary ? format.count(summary.open) : 'unknown'],
      ['overhead', overhead ? `${format.time(overhead.total_ns)} in the program’s threads, ${format.time(overhead.per_event_ns)} per event` : 'not measured'],
      ...clocks.map((clock) => [`clock ${clock.source}`, `accurate to ${format.time(clock.error_ns)}${clock.pairs ? `, from ${format.plural(clock.pairs, 'pair', 'pairs')}` : ''}`]),
    ];
    const missing = (meta.backends ?? []).flatMap((backend) => (backend.missing ?? []).map((line) => `${backend.name}: ${line}`));
    const block = (title, list) => el('div', { class: 'panel' }, el('h3', {}, title), details.facts(list));
    return [
      el('div', { class: 'columns' }, block('Program', program), block('Machine', machine), block('Recording', watching)),
      missing.length > 0 && el('details', { class: 'panel' }, el('summary', {}, `${format.plural(missing.length, 'thing', 'things')} could not be attached`), el('ul', {}, missing.slice(0, 500).map((line) => el('li', {}, line)))),
      (meta.merged ?? []).length > 0 && el('p', { class: 'quiet' }, `Merged from ${format.count(meta.merged.length)} traces.`),
    ];
  }

  function lost(summary, timeline) {
    const number = Math.max(summary?.lost ?? 0, timeline.lost_total);
    return number === 0 ? '0 events' : el('strong', { class: 'bad' }, format.plural(number, 'event', 'events'));
  }

  return { create };
})();
