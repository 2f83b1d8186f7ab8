// The traces of fixtures/traces: recorded on softgpu and on an H200, and one written by hand.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { open } from './browser.mjs';

const PAGES = readdirSync(process.env.CUTRACE_PAGES).filter((name) => name.startsWith('recorded-'));

test('every recorded trace opens without complaint', async () => {
  assert.ok(PAGES.length >= 6, PAGES.join(' '));
  for (const name of PAGES) {
    const page = await open(name);
    assert.deepEqual(page.problems, [], name);
    assert.ok((await page.locator('#panel-functions tbody tr').count()) > 5, name);
    const ids = await page.locator('[id]').evaluateAll((nodes) => nodes.map((node) => node.id));
    assert.deepEqual(ids.filter((id, at) => ids.indexOf(id) !== at), [], `${name}: a table twice`);
    const simulated = await page.getByText('simulated GPU').count();
    assert.equal(simulated, name.startsWith('recorded-demo') ? 1 : 0, `${name}: softgpu says so, hardware does not`);
    await page.context().close();
  }
});

test('the steps of a PyTorch program are those that its loop has', async () => {
  const page = await open('recorded-torch.html');
  const known = Number(/(\d+)\s+iterations/.exec(await page.locator('#phases').innerText())?.[1]);
  assert.ok(known > 10, String(known));
  assert.equal(Number(/\d+/.exec(await page.locator('#tab-steps').innerText())?.[0]), known);
  await page.locator('#tab-steps').click();
  await page.locator('#panel-steps tbody button').first().click();
  assert.match(await page.locator('#timeline-detail').innerText(), /from \d/);
  await page.context().close();
});

// PyTorch copies by cudaMemcpyAsync, which calls the driver's cuMemcpyHtoDAsync_v2, which has the work: each of the three knows all.
test('a recorded copy tells from where to where, how much, how fast, and from what memory', async () => {
  const page = await open('recorded-copies.html');
  const details = async (name) => {
    await page.locator('#search').fill(name);
    await page.waitForFunction(() => /^\d+ match/.test(document.getElementById('search-status').textContent));
    await page.keyboard.press('Enter');
    await page.waitForFunction((wanted) => document.querySelector('#timeline-detail h3').innerText.startsWith(wanted), name);
    return (await page.locator('#timeline-detail').innerText()).replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');
  };
  for (const name of ['memcpy H2D', 'cudaMemcpyAsync', 'cuMemcpyHtoDAsync_v2']) {
    const text = await details(name);
    assert.match(text, /Copy direction H2D size 64\.0 MiB source pageable, 0x7f6c7d229040 destination device, 0x7f6a3a000000 host memory pageable/, name);
    assert.match(text, /bandwidth 9\.42 GB\/s on the GPU queue delay 1\d\d µs/, name);
  }
  assert.match(await details('cudaMemcpyAsync'), /Caused on the GPU memcpy H2D, 7\.13 ms/);
  await page.context().close();
});

test('the demo shows what was planted in it', async () => {
  const page = await open('recorded-demo.html');
  const findings = await page.locator('#findings-list').innerText();
  for (const planted of [/Copies take/, /The loop stops/, /grows by 256\s+KiB with each step/]) assert.match(findings, planted);
  await page.getByRole('button', { name: /^Show in the timeline: The loop stops/ }).click();
  assert.match(await page.locator('#timeline-detail').innerText(), /from \d/);
  await page.context().close();
});

// fixtures/traces/layers.py writes them: thread 101 has 120 + 400 + 6 + 6 + 180 + 20 µs of outermost calls,
// and 100 µs of one that never ends.
test('a trace written by hand reads as it was written', async () => {
  const page = await open('recorded-layers.html');
  await page.locator('#timeline-text summary').click();
  const lines = await page.locator('#timeline-text tbody tr').evaluateAll((rows) => rows.map((row) => [...row.cells].slice(0, 6).map((cell) => cell.textContent.replaceAll('\u2009', ' ')).join(' | ')));
  assert.deepEqual(lines, [
    'GPU 0 default stream | GPU 0 · NVIDIA H200 | 1 | 380 µs | 210 µs | 590 µs',
    'GPU 0 stream 7 | GPU 0 · NVIDIA H200 | 2 | 100 µs | 720 µs | 900 µs',
    'thread 101 | Process 100 · app --fast | 11 | 832 µs | 10.0 µs | 1.30 ms',
    'thread 102 | Process 100 · app --fast | 1 | 10.0 µs | 1.10 ms | 1.11 ms',
  ]);
  await page.locator('#timeline-canvas').focus();
  await page.locator('#search').fill('ioctl');
  await page.keyboard.press('Enter');
  const detail = await page.locator('#timeline-detail').innerText();
  assert.match(detail.replaceAll('\u2009', ' '), /duration\s+60.0 µs/);
  assert.match(detail, /Inside cudaMalloc › cuMemAlloc_v2/);
  await page.context().close();
});

// Memory in use holds its level until the next allocation or free: a slope would show what never was.
test('memory over time is drawn in steps', async () => {
  for (const name of ['recorded-demo.html', 'recorded-layers.html', 'recorded-h200_graph.html']) {
    const page = await open(name);
    const paths = await page.locator('#memory-body svg[aria-label^="Memory in use over time"] path').evaluateAll((drawn) => drawn.map((path) => path.getAttribute('d')));
    assert.ok(paths.length >= 2, name);
    for (const path of paths) {
      const points = path.replace(/^M|Z$/g, '').split('L').map((point) => point.split(' ').map(Number));
      assert.ok(points.length > 2, `${name}: ${path}`);
      points.slice(1).forEach(([x, y], index) => {
        const [before, level] = points[index];
        assert.ok(x === before || y === level, `${name}: from ${before} ${level} to ${x} ${y}`);
      });
    }
    await page.context().close();
  }
});
