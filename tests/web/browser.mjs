// The browser the tests share: Debian's Chromium, driven by playwright-core from target/web.
// CUTRACE_WEB and CUTRACE_PAGES say where that and the pages are.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before } from 'node:test';

const require = createRequire(join(process.env.CUTRACE_WEB, 'package.json'));
const { chromium } = require('playwright-core');

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CUTRACE_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
});
after(async () => {
  await browser?.close();
});

// A page with nothing in it.
export async function blank() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  return context.newPage();
}

// Opens a page of the report and waits until it has drawn itself. Whatever it complains of, and
// whatever it asks the network for, is kept.
export function open(name, { hash = '', ...options } = {}) {
  return goTo(`${pathToFileURL(join(process.env.CUTRACE_PAGES, name))}${hash}`, options);
}

// The same of a page that is served.
export async function goTo(address, { early = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  page.problems = [];
  page.requests = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.problems.push(message.text());
  });
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('request', (request) => page.requests.push(request.url()));
  await page.goto(address);
  // `early`: the timeline is enough.
  await page.waitForSelector(early ? 'html[data-early]' : 'html[data-ready]', { timeout: 120_000, state: 'attached' });
  return page;
}

// The address is written, and pictures are drawn, a moment after the last change. The page's own
// clock says when that is over, however slow the machine.
export function settled(page) {
  return page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 170)));
}

// The part of the trace in view, in nanoseconds, as the address says it; null is everything.
export async function view(page) {
  await settled(page);
  const hash = new URLSearchParams(new URL(page.url()).hash.slice(1));
  return hash.has('from') ? { from: Number(hash.get('from')), to: Number(hash.get('to')) } : null;
}

export const width = (part) => part.to - part.from;

// The colours of a box of the timeline's canvas, as a set of strings.
export function colors(page, box) {
  return page.evaluate(({ x, y, width, height }) => {
    const canvas = document.getElementById('timeline-canvas');
    const ratio = devicePixelRatio;
    const { data } = canvas.getContext('2d').getImageData(x * ratio, y * ratio, width * ratio, height * ratio);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) found.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return [...found];
  }, box);
}
