// Serves a trace, opens it in Chromium, zooms in step by step, searches; prints what each took.
// usage: zoom.mjs CUTRACE TRACE

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.CUTRACE_WEB, 'package.json'));
const { chromium } = require('playwright-core');
const [cutrace, trace] = process.argv.slice(2);
const megabytes = (kilobytes) => `${Math.round(kilobytes / 1024)} MB`;
const memory = (pid, field) => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);

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
console.log(`until it serves        ${Date.now() - began} ms`);

const browser = await chromium.launch({ executablePath: process.env.CUTRACE_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  const opened = Date.now();
  await page.goto(address);
  await page.waitForSelector('html[data-ready]', { state: 'attached', timeout: 120_000 });
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN);
  console.log(`first paint            ${Math.round(paint)} ms, everything drawn ${Date.now() - opened} ms`);

  // A key, then until what is in sight is as fine as it gets and on the screen; by the page's own clock.
  const step = (key) =>
    page.evaluate(async (name) => {
      const from = performance.now();
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
      const root = document.documentElement;
      while (root.dataset.detail === 'waiting') await new Promise((next) => setTimeout(next, 1));
      const ready = performance.now();
      await new Promise((next) => requestAnimationFrame(next));
      const [, ...part] = /from=(\d+)&to=(\d+)/.exec(location.hash) ?? [];
      return { ms: ready - from, state: root.dataset.detail };
    }, key);
  const times = [];
  for (let i = 0; i < 45; i++) {
    const { ms, state } = await step('w');
    times.push(ms);
    await page.waitForTimeout(20);
    if (state === 'missing') console.log(`step ${i + 1}: no answer`);
  }
  await page.waitForTimeout(300);
  const hash = new URLSearchParams(new URL(page.url()).hash.slice(1));
  console.log(`zoom                   ${times.length} steps to ${Number(hash.get('to')) - Number(hash.get('from'))} ns in view`);
  const sorted = [...times].sort((a, b) => a - b);
  console.log(`each step, ms          ${times.map((ms) => ms.toFixed(0)).join(' ')}`);
  console.log(`                       p50 ${sorted[sorted.length >> 1].toFixed(0)} ms, longest ${sorted.at(-1).toFixed(0)} ms`);

  const searched = Date.now();
  await page.locator('#search').fill('RM_ALLOC');
  await page.waitForFunction(() => /match/.test(document.getElementById('search-status').textContent), null, { timeout: 60_000 });
  console.log(`search for RM_ALLOC    first answer after ${Date.now() - searched} ms`);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /RM_ALLOC[\s\S]*(Arguments|Request)/.test(document.getElementById('timeline-detail').innerText), null, { timeout: 60_000 });
  console.log(`                       its arguments after ${Date.now() - searched} ms: ${await page.locator('#search-status').innerText()}`);

  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const tabs = processInfo.filter((one) => one.type === 'renderer').map((one) => memory(one.id, 'VmRSS'));
  console.log(`memory of the tab      ${megabytes(Math.max(...tabs))}`);
  console.log(`memory of the server   ${megabytes(memory(server.pid, 'VmRSS'))}, at most ${megabytes(memory(server.pid, 'VmHWM'))}`);
} finally {
  await browser.close();
  server.kill();
}
