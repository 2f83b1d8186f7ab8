// Detail on demand, with a server that answers by rule: what the page asks for, what it shows, and what it does without.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colors, goTo, settled, view, width } from './browser.mjs';
import { serve } from './mock.mjs';

const PAGE = 'dense.html';
const END = 224e6;
const plain = (text) => text.replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');
const shown = (page) => page.waitForFunction(() => document.documentElement.dataset.detail === 'shown', null, { timeout: 20_000 });

async function zoomIn(page, below) {
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('w');
    const part = await view(page);
    if (part && width(part) < below) break;
  }
  await shown(page);
}

test('zooming in ends at single calls with all their arguments', async () => {
  const mock = await serve(PAGE, END);
  const page = await goTo(mock.address);
  await zoomIn(page, 12_000);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  let text = '';
  for (let x = 300; x < 1300 && !/cuMockCall/.test(text); x += 60) {
    await canvas.click({ position: { x, y: 60 } });
    text = plain(await page.locator('#timeline-detail').innerText());
  }
  await page.waitForFunction(() => /number/.test(document.getElementById('timeline-detail').innerText));
  text = plain(await page.locator('#timeline-detail').innerText());
  assert.match(text, /^cuMockCall What it is duration 1\.50 µs/);
  assert.match(text, /result CUDA_SUCCESS/);
  assert.match(text, /→ <b>out<\/b> 0x7f00/, 'names are text');
  assert.match(text, /main \(mock\.cu:7\)/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
  await mock.close();
});

test('what was asked once is not asked again, and what is out of date is given up', async () => {
  const mock = await serve(PAGE, END);
  const page = await goTo(mock.address);
  await zoomIn(page, 100_000);
  const before = mock.asked.spans;
  // A little to the side is part of the answer.
  await page.keyboard.press('d');
  await settled(page);
  await shown(page);
  await page.keyboard.press('a');
  await settled(page);
  assert.equal(mock.asked.spans, before);
  // A slow server: of many steps only the last is waited for.
  mock.delay = 300;
  for (let step = 0; step < 12; step++) await page.keyboard.press('w', { delay: 45 });
  await shown(page);
  assert.ok(mock.asked.spans <= before + 12);
  assert.ok(mock.aborted > 0 || mock.asked.spans < before + 6, `${mock.aborted} of ${mock.asked.spans} given up`);
  await page.context().close();
  await mock.close();
});

test('where too much is in sight the longest and cells are drawn', async () => {
  const mock = await serve(PAGE, END);
  const page = await goTo(mock.address);
  await zoomIn(page, 60e6);
  await zoomIn(page, 30e6);
  const drawn = await colors(page, { x: 200, y: 54, width: 1000, height: 12 });
  assert.ok(drawn.length > 1);
  assert.deepEqual(page.problems, []);
  await page.context().close();
  await mock.close();
});

test('a search is the server’s, and a match that the page does not carry is gone to', async () => {
  const mock = await serve(PAGE, END);
  const page = await goTo(mock.address);
  await page.locator('#search').fill('RM_ALLOC');
  await page.waitForFunction(() => document.getElementById('search-status').textContent === '27 matches');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Enter');
  assert.equal(await page.locator('#search-status').innerText(), 'match 3 of 27');
  await page.waitForFunction(() => /RM_ALLOC MOCK_CLASS \{n=200\} → NV_OK/.test(document.getElementById('timeline-detail').innerText), null, { timeout: 20_000 });
  const part = await view(page);
  assert.ok(part.from <= 400_000 && part.to >= 400_000 + 1500 && width(part) < 10_000, JSON.stringify(part));
  await page.context().close();
  await mock.close();
});

test('without its server the page says so and goes on', async () => {
  const mock = await serve(PAGE, END);
  const page = await goTo(mock.address);
  await zoomIn(page, 100_000);
  await mock.close();
  // Where nothing has been asked for yet.
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Home');
  await page.getByText('cutrace view has ended').waitFor({ timeout: 20_000 });
  await page.keyboard.press('f');
  assert.equal(await view(page), null);
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await page.locator('#timeline-detail').innerText(), /duration/);
  await page.context().close();
});
