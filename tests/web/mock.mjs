// A stand-in for the server of `cutrace view`: it serves a page of target/pages and answers what docs/VIEW-API.md says, from
// a rule instead of a trace. Lane 0 has a call of 1,500 ns every 2 µs; every hundredth is an ioctl.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const EVERY = 2000;
const LENGTH = 1500;
const NAMES = ['cuMockCall', 'ioctl', 'RM_ALLOC MOCK_CLASS'];
const isIoctl = (number) => number % 100 === 0;

function spans({ from, to, lanes, limit }) {
  const rows = [];
  const first = Math.max(0, Math.ceil((from - LENGTH) / EVERY));
  const last = Math.floor((to - 1) / EVERY);
  const total = Math.max(0, last - first + 1);
  const complete = total <= limit;
  if (lanes.includes(0) && total > 0) {
    const numbers = Array.from({ length: Math.min(total, limit) }, (_, i) => first + i);
    const column = (value) => numbers.map(value);
    rows.push({
      lane: 0, depth: 0,
      start: column((n) => n * EVERY), duration: column(() => LENGTH), inside: column(() => 0),
      name: column((n) => (isIoctl(n) ? 1 : 0)), label: column((n) => (isIoctl(n) ? 2 : 0)),
      category: column(() => 3), layer: column(() => 1), status: column(() => 0),
      id: column((n) => 1_000_000 + n), correlation: column(() => 0), open: column(() => 0),
      cells: complete ? null : cells(from, to),
    });
  }
  return { from, to, complete, names: NAMES, rows };
}

function cells(from, to) {
  const width = Math.max(EVERY, Math.ceil((to - from) / 1000));
  const first = Math.floor(from / width);
  const all = Array.from({ length: Math.floor((to - 1) / width) - first + 1 }, () => 0);
  return { first, width_ns: width, count: all.map(() => Math.round(width / EVERY)), fill: all.map(() => 191), name: all, of_name: all.map(() => Math.round(width / EVERY / 2)), category: all.map(() => 3) };
}

function event(id) {
  const n = id - 1_000_000;
  return {
    id, name: isIoctl(n) ? 'ioctl' : 'cuMockCall', label: isIoctl(n) ? NAMES[2] : NAMES[0], layer: 'driver', category: 'memory', type: 'userspace',
    start_ns: n * EVERY, duration_ns: LENGTH, open: false, pid: 7, tid: 7, cpu: 1, device: 0, context: null, stream: null, lane: 0, depth: 0, correlation: 0,
    status: { code: 0, name: 'CUDA_SUCCESS' }, arguments: [{ name: 'number', value: n, out: false }, { name: '<b>out</b>', value: '0x7f00', out: true }],
    stack: [{ symbol: 'main', file: '/src/mock.cu', line: 7, module: null, address: '0x1', kind: 'native', offset: 0 }],
    parents: [], caused: [], meaning: null,
    ioctl: isIoctl(n) ? { name: NAMES[2], command: '0xc030462b', result: 'NV_OK', words: `${NAMES[2]} {n=${n}} → NV_OK`, fields: [{ name: 'hRoot', value: '0x1' }] } : null,
  };
}

function search(q, end) {
  const found = [];
  for (let n = 0; n * EVERY < end && found.length < 27; n += 100) found.push(n);
  const hit = NAMES[2].toLowerCase().includes(q.toLowerCase());
  return {
    q, total: hit ? found.length : 0, next: null, searched: 1,
    matches: hit ? found.map((n) => ({ id: 1_000_000 + n, start_ns: n * EVERY, duration_ns: LENGTH, lane: 0, depth: 0, name: 'ioctl', label: NAMES[2] })) : [],
  };
}

// Serves until `close()`. `asked` counts requests by path; `delay` holds answers back.
export async function serve(name, end) {
  const html = readFileSync(join(process.env.CUTRACE_PAGES, name), 'utf8')
    .replace('id="data-report">{', 'id="data-report">{"server":{"api":1,"traces":1},')
    .replace("base-uri 'none'", "connect-src 'self'; base-uri 'none'");
  const mock = { asked: {}, delay: 0, aborted: 0 };
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const number = (key) => Number(url.searchParams.get(key));
    const path = url.pathname.split('/').pop();
    mock.asked[path] = (mock.asked[path] ?? 0) + 1;
    const answer = {
      spans: () => spans({ from: number('from'), to: number('to'), limit: number('limit'), lanes: url.searchParams.get('lanes').split(',').map(Number) }),
      event: () => event(number('id')),
      search: () => search(url.searchParams.get('q'), end),
      instances: () => ({ name: url.searchParams.get('name'), total: 0, matches: [], next: null }),
    }[path];
    response.on('close', () => (mock.aborted += response.writableFinished ? 0 : 1));
    setTimeout(() => {
      response.setHeader('Content-Type', answer ? 'application/json' : 'text/html; charset=utf-8');
      response.setHeader('Connection', 'close');
      response.end(answer ? JSON.stringify(answer()) : html);
    }, answer ? mock.delay : 0);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  mock.address = `http://127.0.0.1:${server.address().port}/secret/`;
  mock.close = () => new Promise((done) => server.close(done));
  return mock;
}
