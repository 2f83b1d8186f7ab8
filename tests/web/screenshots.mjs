// Pictures for the docs: report.html and timeline.txt of one folder, as PNG files into another.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.env.CUTRACE_WEB, 'package.json'));
const { chromium } = require('playwright-core');
const [from, to] = process.argv.slice(2).map((folder) => resolve(folder));

const browser = await chromium.launch({ executablePath: process.env.CUTRACE_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
// Each size in both themes. The wide, the narrow and the small ones show a selected call with its details.
const SIZES = [
  { name: '', width: 1440, height: 1150 },
  { name: '-800', width: 800, height: 1100, details: true },
  { name: '-2560', width: 2560, height: 1300, details: true },
  { name: '-phone', width: 390, height: 844, details: true, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
];
for (const colorScheme of ['light', 'dark']) {
  for (const { name, width, height, details, ...options } of SIZES) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...options });
    const page = await context.newPage();
    await page.goto(String(pathToFileURL(join(from, 'report.html'))));
    await page.waitForSelector('html[data-ready]', { state: 'attached' });
    if (details) {
      await page.getByRole('tab', { name: /^Kernels/ }).click();
      await page.locator('#panel-kernels tbody button').first().click();
    }
    await page.waitForTimeout(500);
    await page.screenshot({ path: join(to, `report${name}-${colorScheme}.png`) });
    await context.close();
  }
}

const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, deviceScaleFactor: 1.5 });
await page.setContent(terminal(readFileSync(join(from, 'timeline.txt'), 'utf8')));
await page.locator('pre').screenshot({ path: join(to, 'timeline.png') });
await browser.close();

// A terminal's text as HTML: of its escapes only colours and weights are understood.
function terminal(text) {
  const palette = ['#2e3a44', '#ff7a66', '#2fc298', '#f2b13d', '#4a9be8', '#d48ac8', '#6fc1f0', '#d6dde3', '#6b7a87', '#ff9d8f', '#5fe0b8', '#ffd072', '#7db8f5', '#e6aede', '#9ad6f7', '#ffffff'];
  const style = {};
  let html = '';
  for (const [, codes, words] of text.matchAll(/(?:\x1b\[([0-9;]*)m)?([^\x1b]*)/g)) {
    if (codes != null) apply(codes === '' ? [0] : codes.split(';').map(Number));
    const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
    html += `<span style="${Object.values(style).join(';')}">${escaped}</span>`;
  }
  return `<style>body{margin:0}pre{display:inline-block;margin:0;padding:18px 22px;background:#0f1418;color:#d6dde3;font:14px/1.25 "DejaVu Sans Mono",monospace}</style><pre>${html}</pre>`;

  function apply(list) {
    for (let i = 0; i < list.length; i++) {
      const code = list[i];
      if (code === 0) for (const key of Object.keys(style)) delete style[key];
      else if (code === 1) style.weight = 'font-weight:700';
      else if (code === 2) style.dim = 'opacity:.65';
      else if (code === 22) delete style.weight, delete style.dim;
      else if (code === 39) delete style.color;
      else if (code === 49) delete style.back;
      else if (code >= 30 && code < 38) style.color = `color:${palette[code - 30]}`;
      else if (code >= 90 && code < 98) style.color = `color:${palette[code - 82]}`;
      else if (code >= 40 && code < 48) style.back = `background:${palette[code - 40]}`;
      else if ((code === 38 || code === 48) && list[i + 1] === 5) {
        style[code === 38 ? 'color' : 'back'] = `${code === 38 ? 'color' : 'background'}:${indexed(list[i + 2])}`;
        i += 2;
      } else if ((code === 38 || code === 48) && list[i + 1] === 2) {
        style[code === 38 ? 'color' : 'back'] = `${code === 38 ? 'color' : 'background'}:rgb(${list.slice(i + 2, i + 5)})`;
        i += 4;
      }
    }
  }

  function indexed(number) {
    if (number < 16) return palette[number];
    if (number >= 232) return `rgb(${Array(3).fill(8 + (number - 232) * 10)})`;
    const step = (part) => (part === 0 ? 0 : 55 + part * 40);
    const cube = number - 16;
    return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(step)})`;
  }
}
