// Serves a trace, opens it in Chromium, zooms from the whole run to one named call and reads its arguments, searches; prints what
// each took. Then once more with what was kept beside the trace.
// usage: zoom.mjs CUTRACE TRACE [RESULTS]      RESULTS: a file that gets a line of JSON for each figure

import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.CUTRACE_WEB, 'package.json'));
const { chromium } = require('playwright-core');
const [cutrace, trace, results] = process.argv.slice(2);
const NAME = 'cuMemAlloc_v2';
const megabytes = (kilobytes) => `${Math.round(kilobytes / 1024)} MB`;
const memory = (pid, field) => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
// Seconds of processor that a process has used.
const used = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const line = (label, text) => console.log(`${label.padEnd(24)} ${text}`);
// A figure for the table at the end (table.py).
const figure = (name, value) => results && appendFileSync(results, `${JSON.stringify({ name, value })}\n`);

async function serve() {
  const began = Date.now();
  const server = spawn(cutrace, ['view', '--no-open', trace], { stdio: ['ignore', 'ignore', 'pipe'] });
  const address = await new Promise((done, fail) => {
    let said = '';
    server.stderr.on('data', (text) => {
      said += text;
      const found = /http:\/\/\S+/.exec(said);
      if (found) done(found[0]);
    });
    server.on('exit', () => fail(new Error(said)));
  });
  return { server, address, took: Date.now() - began, began };
}

const browser = await chromium.launch({ executablePath: process.env.CUTRACE_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });

// Opens the page; when something, the timeline and everything were drawn.
async function open(address) {
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  const opened = Date.now();
  await page.goto(address);
  const paint = await page.evaluate(async () => {
    for (;;) {
      const entry = performance.getEntriesByName('first-contentful-paint')[0];
      if (entry) return entry.startTime;
      await new Promise((next) => setTimeout(next, 20));
    }
  });
  await page.waitForFunction(() => document.documentElement.dataset.early || document.documentElement.dataset.ready, null, { timeout: 600_000 });
  const timeline = Date.now() - opened;
  return { page, opened, paint, timeline };
}

const ready = (page) => page.waitForSelector('html[data-ready]', { state: 'attached', timeout: 600_000 });

// One turn of the wheel over a moment, then until what is in sight is as fine as it gets; by the page's own clock.
const step = (page, moment) =>
  page.evaluate(async (at) => {
    const canvas = document.getElementById('timeline-canvas');
    const box = canvas.getBoundingClientRect();
    const hash = new URLSearchParams(location.hash.slice(1));
    const [from, to] = [Number(hash.get('from') ?? 0), Number(hash.get('to') ?? at.end)];
    const left = at.gutter;
    const x = box.left + left + ((at.time - from) / (to - from)) * (box.width - left);
    const began = performance.now();
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -240, clientX: x, clientY: box.top + 60, bubbles: true, cancelable: true }));
    const root = document.documentElement;
    while (root.dataset.detail === 'waiting') await new Promise((next) => setTimeout(next, 1));
    const took = performance.now() - began;
    await new Promise((next) => setTimeout(next, 250));
    const now = new URLSearchParams(location.hash.slice(1));
    return { ms: took, state: root.dataset.detail, width: Number(now.get('to') ?? at.end) - Number(now.get('from') ?? 0) };
  }, moment);

// The process of the page that is open.
async function tabOf() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const tabs = processInfo.filter((one) => one.type === 'renderer').map((one) => one.id);
  return tabs.reduce((best, id) => (memory(id, 'VmRSS') > memory(best, 'VmRSS') ? id : best));
}

const sorted = (times) => [...times].sort((a, b) => a - b);

try {
  rmSync(`${trace}.index`, { force: true });
  const first = await serve();
  const { page, paint, timeline, opened } = await open(first.address);
  line('until it serves', `${first.took} ms, without an index`);
  line('first paint', `${Math.round(paint)} ms, the timeline after ${timeline} ms`);
  figure('served', first.took);
  figure('paint', paint);
  figure('timeline', opened + timeline - first.began);
  await ready(page);
  line('the report', `after ${Date.now() - opened} ms; ${used(first.server.pid).toFixed(1)} s of processor for index and report`);
  const [size, whole] = [statSync(`${trace}.index`).size, statSync(trace).size];
  line('index with report', `${(size / 1e6).toFixed(2)} MB, ${((100 * size) / whole).toFixed(1)} % of the trace`);
  figure('report', Date.now() - first.began);
  figure('report_cpu', used(first.server.pid) * 1e3);
  const built = memory(first.server.pid, 'VmHWM');

  const ask = async (path) => (await fetch(`${first.address}api/${path}`)).json();
  const wanted = (await ask(`instances?name=${NAME}&by=duration`)).matches.at(-1);
  const { end } = await page.evaluate(() => ({ end: Number(document.documentElement.dataset.end) }));
  const moment = { time: wanted.start_ns + wanted.duration_ns / 2, end, gutter: 178 };
  await page.locator('#timeline-canvas').scrollIntoViewIfNeeded();
  const times = [];
  const tab = await tabOf();
  // Processor time of the server and of the tab, in milliseconds: the same however loaded the machine is.
  const work = () => [first.server.pid, tab].map((pid) => used(pid) * 1e3);
  const works = [];
  const before = used(first.server.pid);
  for (let i = 0; i < 60; i++) {
    const start = work();
    const { ms, state, width } = await step(page, moment);
    times.push(ms);
    works.push(work().map((now, at) => now - start[at]));
    if (state === 'missing') line(`step ${i + 1}`, 'no answer');
    if (width < 4 * Math.max(wanted.duration_ns, 50)) break;
  }
  line('zoom', `${times.length} steps from the whole run to one ${NAME}`);
  line('each step, ms', times.map((ms) => ms.toFixed(0)).join(' '));
  line('server, tab: ms of CPU', works.map((pair) => pair.map((ms) => ms.toFixed(0)).join('+')).join(' '));
  line('', `p50 ${sorted(times)[times.length >> 1].toFixed(0)} ms, longest ${sorted(times).at(-1).toFixed(0)} ms`);
  line('', `${((1e3 * (used(first.server.pid) - before)) / times.length).toFixed(0)} ms of the server's processor time a step`);
  figure('step', sorted(times)[times.length >> 1]);
  figure('longest_step', sorted(times).at(-1));
  figure('step_work', Math.max(...works.map(([server, tab]) => server + tab)));
  figure('step_cpu', (1e3 * (used(first.server.pid) - before)) / times.length);
  const selected = Date.now();
  await page.evaluate((id) => {
    const hash = new URLSearchParams(location.hash.slice(1));
    hash.set('op', id);
    location.hash = hash;
  }, wanted.id);
  await page.waitForFunction((name) => new RegExp(`${name}[\\s\\S]*Arguments`).test(document.getElementById('timeline-detail').innerText), NAME, { timeout: 60_000 });
  line('its arguments', `after ${Date.now() - selected} ms`);
  figure('arguments', Date.now() - selected);

  const searched = Date.now();
  await page.locator('#search').fill('RM_ALLOC');
  await page.waitForFunction(() => /match/.test(document.getElementById('search-status').textContent), null, { timeout: 60_000 });
  line('search for RM_ALLOC', `first answer after ${Date.now() - searched} ms`);
  figure('search', Date.now() - searched);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /RM_ALLOC[\s\S]*(Arguments|Request)/.test(document.getElementById('timeline-detail').innerText), null, { timeout: 60_000 });
  line('', `its arguments after ${Date.now() - searched} ms: ${await page.locator('#search-status').innerText()}`);

  line('memory of the tab', megabytes(memory(tab, 'VmRSS')));
  figure('tab', memory(tab, 'VmRSS') / 1024);
  figure('server', memory(first.server.pid, 'VmHWM') / 1024);
  line('memory of the server', `${megabytes(memory(first.server.pid, 'VmRSS'))}, at most ${megabytes(built)} for index and report, ${megabytes(memory(first.server.pid, 'VmHWM'))} in all`);
  await page.context().close();
  first.server.kill();

  const again = await serve();
  const second = await open(again.address);
  await ready(second.page);
  line('the next time', `serves after ${again.took} ms, first paint ${Math.round(second.paint)} ms, everything after ${Date.now() - second.opened} ms`);
  line('', `memory of the server ${megabytes(memory(again.server.pid, 'VmHWM'))}`);
  figure('again', Date.now() - again.began);
  again.server.kill();
} finally {
  await browser.close();
}
