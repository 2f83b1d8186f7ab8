// Puts the page together.

const SECTIONS = [
  ['findings', 'Findings'],
  ['timeline', 'Timeline'],
  ['tables', 'Tables'],
  ['memory', 'Memory'],
  ['idle', 'Idle'],
  ['histograms', 'Durations'],
  ['flame', 'Flame'],
  ['environment', 'Environment'],
];

function start([report, other]) {
  title(report.meta, report);
  const shown = showTimeline(report, other);
  fill(shown, report, other);
}

// The timeline first; what the report says when it is there.
async function startEarly() {
  const report = early.begin();
  title(report.meta, report);
  const shown = showTimeline(report, null);
  document.documentElement.dataset.early = 'true';
  let touched = false;
  shown.view.onchange(() => (touched = true));
  const whole = await early.rest();
  const { timeline, ...known } = whole;
  // What is drawn stays as it is: the lanes are the same, names have other numbers.
  Object.assign(report, known, { early: false, served: report.served, server: report.server });
  for (const part of ['limits', 'lost', 'lost_total']) report.timeline[part] = timeline[part];
  lanes.groupsOf(timeline, report.meta, report.summary?.processes);
  shown.legend = legendOf({ timeline }, shown.view);
  const top = () => byId('timeline').getBoundingClientRect().top;
  const before = top();
  fill(shown, { ...report, timeline }, null);
  report.stepAt = shown.filled.stepAt;
  title(report.meta, { ...report, timeline });
  // What somebody looks at does not move away.
  if (touched) scrollBy(0, top() - before);
}

function showTimeline(report, other) {
  const { timeline } = report;
  const detail = byId('timeline-detail');
  const live = byId('timeline-live');
  const tell = (text) => dom.replace(live, text);
  // What is selected in a timeline is described below, whichever of two it is.
  const hooksOf = (of, viewOf) => ({
    half: other != null,
    end: other && Math.max(timeline.end_ns, other.timeline.end_ns),
    selected(ref, linked) {
      detail.hidden = !ref;
      // A long timeline makes room: what was pressed and what is known of it are seen together.
      byId('timeline').classList.toggle('detailed', ref != null);
      if (!ref) return;
      const view = viewOf();
      const known = eventOf.embedded(of.timeline, ref);
      const show = (event, waiting) => dom.replace(detail, details.ofSpan(of, view, ref, linked, event, waiting));
      show(known, of.server != null);
      if (of.server) ask(of, view, ref).then((event) => view.scene.selected === ref && show(event ?? known, false));
      tell(`${details.labelOf(of.timeline, ref)}, ${format.time(ref.row.duration[ref.i])}, ${of.timeline.categories[ref.row.category[ref.i]]}, on ${lanes.fullLabel(of.timeline.lanes[ref.row.lane])}.`);
    },
    ranged(stretch) {
      detail.hidden = !stretch;
      if (!stretch) byId('timeline').classList.remove('detailed');
      if (stretch) dom.replace(detail, range.panel(of, viewOf(), stretch));
    },
  });
  const view = timelineView.create(report, hooksOf(report, () => view));
  if (report.served) connect(report, view, 0);
  timelineInput.attach(view, details.tooltip(report));
  overview.create(view);
  let telling = 0;
  view.onchange(() => {
    clearTimeout(telling);
    telling = setTimeout(() => tell(words.ofView(report, view)), 400);
  });
  const legend = legendOf(report, view);
  const find = search.create(report, view);
  toolbar(view);
  theme();
  keys.create(view, find);
  fromPlace(view);
  place.changed(() => fromPlace(view));
  palette.onPaper(view.drawNow);
  // For measurements: how much time there is.
  document.documentElement.dataset.end = view.end;
  return { view, find, legend, hooksOf };
}

// Everything besides the timeline.
function fill(shown, report, other) {
  const { view, find, legend, hooksOf } = shown;
  const { meta, timeline } = report;
  shown.filled = report;
  const go = navigation(report, view, () => tab);
  Object.assign(go, { setSearch: find.set, legend });
  dom.replace(byId('headline'), headline.create(report, go));
  dom.replace(byId('balance'), headline.balance(report, go));
  dom.replace(byId('phases'), phasesView.create(report, go));
  dom.replace(byId('findings-list'), findings.create(report, go));
  const tab = tabs.create(report, go, byId('tables-body'), byId('tabs'));
  dom.replace(byId('memory-body'), memoryView.create(report, go));
  dom.replace(byId('idle-body'), idleView.create(report, go, view));
  dom.replace(byId('samples-body'), samplesView.create(report, go));
  dom.replace(byId('histograms-body'), charts.durations(report), charts.sizes(report));
  const flames = flame.create(report, go);
  dom.replace(byId('environment-body'), environment.create(report));
  dom.replace(byId('timeline-text-body'), words.table(report, view));
  dom.replace(byId('footer'), words.aggregation(timeline, report.server).map((line) => el('p', {}, line)), el('p', {}, `Made by cutrace${meta.cutrace ? ` ${meta.cutrace}` : ''}. ${report.served ? 'This page asks only the cutrace view that serves it.' : 'This file is self-contained: it loads nothing and sends nothing.'}`));
  find.attach({ tab, flames });
  if (other) compare.create([report, other], view, hooksOf, { tooltip: details.tooltip(other), find, connect });
  view.redraw();
  document.documentElement.dataset.ready = 'true';
}

// A page of `cutrace view` asks its server for what it does not carry; without the server it goes on with what it has.
function connect(report, view, trace) {
  let gone = null;
  report.server = serverOf.create(report, trace, (alive) => {
    if (alive) gone?.remove();
    else if (!gone?.isConnected) {
      gone = el('p', { class: 'notice bad', role: 'alert' }, 'cutrace view has ended: this page goes on with what it has loaded. Start it again for the detail of single calls.');
      byId('notices').append(gone);
    }
  });
  finer.create(report, view);
}

// What the server knows of a selected span; of a launch or a copy also what ran on the GPU, of that also its call. Arrows lead to
// what it caused.
async function ask(report, view, ref) {
  const known = await report.server.event(ref.row.id[ref.i]).catch(() => null);
  if (!known) return null;
  const other = known.caused[0] && (() => report.server.event(known.caused[0].id).catch(() => null));
  const category = report.timeline.categories[ref.row.category[ref.i]];
  if (other && report.timeline.layers[ref.row.layer[ref.i]] === 'gpu') known.call ??= await other();
  else if (other && (['launch', 'transfer'].includes(known.meaning?.kind) || ['kernel', 'transfer'].includes(category))) known.work ??= await other();
  // The driver's call inside a runtime's does not know what is copied where.
  const call = known.call ?? known;
  if (category === 'transfer' && !call.meaning?.src && call.parents.length > 0) known.around ??= await report.server.event(call.parents.at(-1).id).catch(() => null);
  if (view.scene.selected === ref && view.scene.linked.length === 0) {
    view.scene.linked = known.caused.map((work) => view.find.id(work.id) ?? view.finer.find(work.id)).filter(Boolean);
    view.redraw();
  }
  return known;
}

function title(meta, report) {
  const command = (meta.command ?? []).join(' ');
  document.title = format.visible(command ? `${command.slice(0, 80)} · cutrace` : 'cutrace report');
  dom.replace(byId('command'), command);
  byId('command').title = format.visible(command);
  const simulated = (meta.gpus ?? []).some((gpu) => gpu.simulated);
  const lost = Math.max(report.summary?.lost ?? 0, report.timeline.lost_total);
  dom.replace(
    byId('badges'),
    simulated && el('span', { class: 'badge', title: 'softgpu, a software device: times are not those of a GPU' }, 'simulated GPU'),
    lost > 0 && el('span', { class: 'badge bad' }, `${format.count(lost)} events lost`),
    !report.summary && !report.early && el('span', { class: 'badge bad', title: 'The trace has no summary at its end' }, 'cut off'),
  );
  dom.replace(byId('nav'), SECTIONS.map(([id, label]) => el('a', { href: `#${id}`, data: { goto: id } }, label)));
  document.addEventListener('click', (event) => {
    const link = event.target.closest('[data-goto]');
    if (!link) return;
    event.preventDefault();
    byId(link.dataset.goto).scrollIntoView();
    const heading = byId(`${link.dataset.goto}-title`);
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  });
}

// Where clicks lead.
function navigation(report, view, tabOf) {
  const { timeline } = report;
  const showTimeline = () => byId('timeline').scrollIntoView({ block: 'start' });
  const go = {
    relative: (absolute) => Math.max(0, absolute - report.origin_ns),
    known: (id) => report.server != null || view.find.id(id) != null,
    section(target) {
      const [id, table] = target.split(':');
      if (table) tabOf().choose(table);
      byId(id).scrollIntoView();
    },
    // An operation by its id; where it is not kept one by one, its moment, or its name.
    operation(id, name, known) {
      const ref = id == null ? null : view.find.id(id);
      if (ref) {
        showTimeline();
        view.reveal(ref);
      } else if (id != null && report.server) {
        showTimeline();
        view.revealId(id);
      } else if (known?.duration_ns != null) {
        showTimeline();
        const from = go.relative(known.start_ns);
        view.revealTime(from, from + known.duration_ns);
      } else if (known?.at_ns != null) go.moment(go.relative(known.at_ns));
      else if (name) go.setSearch(name, true);
    },
    stretch(from, to) {
      showTimeline();
      view.revealTime(from, to);
    },
    moment(at) {
      showTimeline();
      const width = view.end / 50;
      view.show(at - width / 2, at + width / 2);
      view.selectRange({ from: Math.max(0, at - width / 200), to: Math.min(view.end, at + width / 200) });
    },
    name(index) {
      go.setSearch(timeline.names[index], true);
    },
    kernel(row) {
      go.setSearch(row.variants?.[0] ?? row.name, true);
    },
    lane(lane) {
      showTimeline();
      view.show(lane.first, Math.max(lane.last, lane.first + 20));
      if (lane.rows[0]) view.scrollTo(lane.rows[0]);
    },
    category(category) {
      showTimeline();
      go.legend.choose(timeline.categories.indexOf(category));
    },
  };
  return go;
}

function legendOf(report, view) {
  const { timeline } = report;
  const used = timeline.categories.map((category, index) => ({ category, index })).filter(({ index }) => timeline.lanes.some((lane) => lane.by_category[index] > 0));
  const buttons = used.map(({ category, index }) => el('button', { type: 'button', 'aria-pressed': 'false', onclick: () => choose(view.scene.only === index ? null : index) }, tables.swatch(category), category));
  dom.replace(byId('legend'), buttons);
  function choose(index) {
    view.scene.only = index;
    buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(used[at].index === index)));
    view.redraw();
  }
  return { choose };
}

function toolbar(view) {
  const on = (id, action) => byId(id).addEventListener('click', action);
  on('zoom-in', () => view.zoom(1 / 1.5));
  on('zoom-out', () => view.zoom(1.5));
  on('pan-left', () => view.pan(-0.2));
  on('pan-right', () => view.pan(0.2));
  on('zoom-fit', () => view.fit());
  on('sum-up', () => {
    view.selectRange(view.scene.view);
    byId('timeline-detail').scrollIntoView({ block: 'nearest' });
  });
  on('copy-link', () => copyLink(view));
}

// The address with the stretch in view, also when that is everything; where the clipboard is closed, for copying by hand.
async function copyLink(view) {
  const button = byId('copy-link');
  const { from, to } = view.scene.view;
  place.set({ from: Math.round(from), to: Math.round(to) });
  const address = place.address();
  const done = (text) => {
    dom.replace(button, text);
    setTimeout(() => dom.replace(button, 'Copy link'), 1500);
  };
  try {
    await navigator.clipboard.writeText(address);
    done('Copied');
  } catch {
    const field = el('textarea', { class: 'visually-hidden' });
    field.value = address;
    document.body.append(field);
    field.select();
    done(document.execCommand('copy') ? 'Copied' : 'Copy the address');
    field.remove();
  }
}

function theme() {
  const button = byId('theme');
  const show = () => button.setAttribute('aria-pressed', String(palette.isDark()));
  button.addEventListener('click', () => {
    const next = palette.isDark() ? 'light' : 'dark';
    palette.set(next);
    place.set({ theme: next });
  });
  palette.changed(show);
  if (['light', 'dark'].includes(place.get('theme'))) palette.set(place.get('theme'));
  show();
}

// What the address says, shown.
function fromPlace(view) {
  const number = (key) => (place.get(key) == null ? NaN : Number(place.get(key)));
  const [from, to, op] = [number('from'), number('to'), number('op')];
  const ref = Number.isFinite(op) ? view.find.id(op) : null;
  if (ref) {
    view.select(ref);
    view.scrollTo(ref.row);
  }
  if (to > from) view.show(from, to);
  else if (ref) view.reveal(ref);
  if (!ref && Number.isFinite(op)) view.revealId(op);
}

const unreadable = (error) => dom.replace(byId('notices'), el('p', { class: 'notice bad', role: 'alert' }, `This report could not be read: ${error}. It needs a browser from 2023 or later.`));
if (byId('data-waiting')) early.wait().catch(unreadable);
else if (byId('data-early')) startEarly().catch(unreadable);
else Promise.all([data.load(), byId('data-report-1') && data.load('-1')]).then(start).catch(unreadable);
