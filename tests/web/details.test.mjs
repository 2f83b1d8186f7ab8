// What the page says about one call, kernel, copy or ioctl, and how it is found.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, settled, view, width } from './browser.mjs';

const PAGE = 'inference.html';
const plain = (text) => text.replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');

// Searches, and goes to the first match.
async function find(page, text) {
  await page.locator('#search').fill(text);
  await page.keyboard.press('Enter');
  return plain(await page.locator('#timeline-detail').innerText());
}

test('a search for RM_ALLOC finds the ioctls, decoded', async () => {
  const page = await open(PAGE);
  const text = await find(page, 'RM_ALLOC');
  assert.match(text, /RM_ALLOC HOPPER_CHANNEL_GPFIFO_A → NV_OK/);
  assert.match(text, /Inside cudaSetDevice › cuSetDevice/, 'its API call');
  assert.match(text, /hRoot 0xc1d00001/, 'the struct');
  assert.match(text, /params\.engineType 1/);
  assert.match(text, /→ hObjectNew 0x5c00001c/, 'what the driver changed');
  assert.match(text, /fd 5/);
  assert.match(await page.locator('#search-status').innerText(), /^match 1 of \d+$/);
  await page.getByRole('tab', { name: /^ioctls/ }).click();
  assert.match(await page.locator('#panel-requests').innerText(), /RM_ALLOC HOPPER_CHANNEL_GPFIFO_A/);
  assert.doesNotMatch(await page.locator('#panel-requests').innerText(), /SET_TIMESLICE/, 'the table has the matches only');
  await page.context().close();
});

test('matches are counted, walked and listed', async () => {
  const page = await open(PAGE);
  await page.locator('#search').fill('softmax');
  const status = page.locator('#search-status');
  await page.waitForFunction(() => /matches/.test(document.getElementById('search-status').textContent));
  // 40 tokens of 6 layers: a launch and its work each.
  assert.equal(plain(await status.innerText()), '480 matches');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  assert.equal(plain(await status.innerText()), 'match 3 of 480');
  await page.locator('#search-back').click();
  assert.equal(plain(await status.innerText()), 'match 2 of 480');
  await page.getByRole('tab', { name: /^Matches/ }).click();
  const rows = page.locator('#panel-matches tbody tr');
  assert.equal(await rows.count(), 60, 'a page of them');
  await rows.nth(4).getByRole('button').click();
  assert.equal(plain(await status.innerText()), 'match 5 of 480');
  await page.locator('#search').fill('no such thing');
  await page.waitForFunction(() => document.getElementById('search-status').textContent === 'no match');
  assert.ok(await page.locator('#tab-matches').isHidden());
  await page.context().close();
});

test('arguments and results are searched', async () => {
  const page = await open(PAGE);
  const text = await find(page, 'MAX_BLOCKS_PER_MULTIPROCESSOR');
  assert.match(text, /cuDeviceGetAttribute/);
  assert.match(text, /attrib CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR/);
  assert.match(text, /→ pi 32/);
  assert.match(text, /result CUDA_SUCCESS/);
  // The table of functions has the one that was found by its argument.
  const names = await page.locator('#panel-functions tbody th').allInnerTexts();
  assert.deepEqual(names, ['cuDeviceGetAttribute']);
  await page.context().close();
});

test('a kernel tells how it was launched', async () => {
  const page = await open(PAGE);
  await page.getByRole('tab', { name: /^Kernels/ }).click();
  await page.locator('#panel-kernels tbody th').filter({ hasText: 'gemm' }).getByRole('button').click();
  const text = plain(await page.locator('#timeline-detail').innerText());
  assert.match(text, /grid 128 × 1 × 1 = 128 blocks/);
  assert.match(text, /block 256 × 1 × 1 = 256 threads/);
  assert.match(text, /shared memory 8\.00 KiB static/);
  assert.match(text, /registers 128 per thread/);
  // 128 registers × 256 threads: two blocks of eight warps in a multiprocessor of 64.
  assert.match(text, /occupancy 25\.0 %: 2 blocks per SM, limited by registers/);
  assert.match(text, /SMs used at most 128 of 132: one block each/);
  assert.match(text, /operator attention/, 'the range around its call');
  assert.match(text, /Its call was inside .*attention/);
  assert.match(text, /queue delay [\d.]+ µs from the call to the start/);
  assert.match(text, /Belongs to cudaLaunchKernel, 5\.20 µs on thread 4242 main, began/);
  // The second token's is in the loop's first step.
  for (let i = 0; i < 8; i++) await page.getByRole('button', { name: 'Next with this name' }).click();
  assert.match(plain(await page.locator('#timeline-detail').innerText()), /operator attention step \d+/);
  // The call says the same of its kernel.
  await page.locator('#timeline-detail').getByRole('button', { name: /^cudaLaunchKernel, / }).click();
  const call = plain(await page.locator('#timeline-detail').innerText());
  assert.match(call, /kernel void gemm<float, 128, 64>/);
  assert.match(call, /occupancy 25\.0 %/);
  assert.match(call, /Caused on the GPU gemm<float,128,64>/);
  assert.match(call, /Stack forward generate main/);
  await page.context().close();
});

test('a copy tells from where to where, and how fast', async () => {
  const page = await open(PAGE);
  const text = await find(page, 'cudaMemcpyAsync');
  assert.match(text, /direction H2D size 9\.00 MiB/);
  assert.match(text, /source pageable, 0x7f0000001000/);
  assert.match(text, /destination device, 0x70000000/);
  assert.match(text, /host memory pageable/);
  assert.match(text, /bandwidth [\d.]+ GB\/s on the GPU/);
  await page.context().close();
});

test('launch shapes have their occupancy', async () => {
  const page = await open(PAGE);
  await page.getByRole('tab', { name: /^Launch shapes/ }).click();
  const line = page.locator('#panel-shapes tbody tr').filter({ hasText: 'gemm' });
  assert.equal(await line.count(), 1);
  const text = plain(await line.innerText());
  assert.match(text, /240 .*128×1×1 256×1×1 128 8\.00 KiB 25\.0 % registers/);
  await line.getByRole('button').click();
  assert.match(await page.locator('#timeline-detail h3').innerText(), /gemm/);
  await page.context().close();
});

test('steps: outliers are marked, a press zooms, two are compared', async () => {
  const page = await open(PAGE);
  await page.getByRole('tab', { name: /^Steps/ }).click();
  const panel = page.locator('#panel-steps');
  assert.match(plain(await panel.innerText()), /steps: median/);
  const slow = panel.locator('tbody tr').filter({ hasText: 'slow' });
  await panel.getByRole('button', { name: 'outlier' }).click();
  await panel.getByRole('button', { name: 'outlier' }).click();
  assert.ok((await slow.count()) >= 1, 'the planted pause');
  await slow.first().getByRole('button').click();
  assert.ok(width(await view(page)) > 15e6 && width(await view(page)) < 40e6, 'it lasts 18 ms');
  const boxes = panel.getByRole('checkbox');
  await boxes.nth(0).check();
  await boxes.nth(3).check();
  const compared = page.locator('#steps-compared');
  assert.match(plain(await compared.innerText()), /beside step/);
  assert.ok((await compared.locator('tbody tr').count()) > 3);
  await page.context().close();
});

test('memory tells who holds it under the pointer', async () => {
  const page = await open(PAGE);
  const holders = page.locator('#memory-holders');
  assert.match(plain(await holders.innerText()), /cudaMalloc/);
  const chart = page.locator('#memory-body svg').first();
  await chart.scrollIntoViewIfNeeded();
  await chart.hover({ position: { x: 80, y: 60 } });
  const early = plain(await holders.innerText());
  await chart.hover({ position: { x: 1000, y: 60 } });
  const late = plain(await holders.innerText());
  assert.notEqual(early, late);
  assert.match(late, /grow_cache/, 'with the function that asked for it');
  await page.context().close();
});

test('the flame graph has bytes, and GPU time by stack', async () => {
  const page = await open(PAGE);
  const box = (text) => page.locator('.flame-node').filter({ hasText: new RegExp(`^${text}$`) });
  await page.getByRole('button', { name: 'Bytes allocated' }).click();
  assert.match(await box('load_model').getAttribute('title'), /576.MiB/);
  await page.getByRole('button', { name: 'GPU time', exact: true }).click();
  assert.ok((await box('forward').count()) > 0, 'the stack that launched');
  await page.context().close();
});

test('the flame graph of a stretch: of everything it is that of the page, of a part less', async () => {
  const page = await open(PAGE);
  const tips = (where) => page.locator(`${where} .flame-node`).evaluateAll((boxes) => boxes.map((box) => box.title).sort());
  const inPanel = page.locator('#timeline-detail .stretch-flame');
  const choose = async (where, name) => page.locator(where).getByRole('button', { name, exact: true }).click();
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('r');
  await inPanel.locator('.flame-node').first().waitFor();
  for (const side of ['Host time', 'GPU time', 'Bytes allocated', 'Bytes copied']) {
    await choose('#flame-tools', side);
    await choose('#timeline-detail .stretch-flame', side);
    // Both as wide: what is too narrow is in neither.
    await page.evaluate(() => (document.getElementById('flame-body').style.width = `${document.querySelector('.stretch-flame .flame').clientWidth + 2}px`));
    await settled(page);
    const whole = await tips('#flame-body');
    assert.ok(whole.length > 2, side);
    assert.deepEqual(await tips('#timeline-detail'), whole, side);
  }
  for (let step = 0; step < 4; step++) await page.keyboard.press('w');
  await page.locator('#sum-up').click();
  await inPanel.locator('.flame-node').first().waitFor();
  const [part, all] = [await tips('#timeline-detail'), await tips('#flame-body')];
  const total = (list) => list.find((tip) => tip.startsWith('All host threads'));
  assert.ok(total(part) && total(part) !== total(all));
  await inPanel.locator('.flame-node').nth(1).click();
  assert.ok(await page.locator('#timeline-detail').isVisible());
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('a link to the stretch is copied', async () => {
  const page = await open(PAGE, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.keyboard.press('w');
  await page.locator('#copy-link').click();
  await page.waitForFunction(() => document.getElementById('copy-link').textContent === 'Copied');
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  await settled(page);
  assert.equal(copied, page.url());
  assert.match(copied, /from=\d+&to=\d+/);
  await page.context().close();
});
