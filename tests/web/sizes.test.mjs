// Screens of every size, and fingers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, settled, view, width } from './browser.mjs';

const PAGE = 'inference.html';
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test('a wide screen is used', async () => {
  const page = await open(PAGE, { viewport: { width: 2560, height: 1300 } });
  const box = await page.locator('#timeline-canvas').boundingBox();
  assert.ok(box.width > 2480, `${box.width} of 2560`);
  assert.equal(await overflow(page), 0);
  await page.context().close();
});

test('at 800 pixels there is a navigation and a timeline', async () => {
  const page = await open(PAGE, { viewport: { width: 800, height: 900 } });
  assert.equal(await overflow(page), 0);
  await page.getByRole('navigation').getByRole('link', { name: 'Memory' }).click();
  await settled(page);
  const top = (await page.locator('#memory-title').boundingBox()).y;
  const bar = await page.locator('header.bar').boundingBox();
  assert.ok(top >= bar.y + bar.height - 1 && top < 300, `the heading is at ${top}, below the bar of ${bar.height}`);
  assert.ok((await page.locator('#timeline-canvas').boundingBox()).width > 740);
  await page.context().close();
});

test('a phone has everything, and nothing is wider than it', async () => {
  const page = await open(PAGE, PHONE);
  assert.equal(await overflow(page), 0);
  assert.ok(await page.getByRole('navigation').isVisible());
  assert.ok(await page.locator('#search').isVisible());
  const gutter = await page.evaluate(() => document.getElementById('timeline-canvas').clientWidth);
  assert.ok(gutter > 340, `${gutter}`);
  await page.locator('#search').fill('gemm');
  await page.keyboard.press('Enter');
  assert.match(await page.locator('#timeline-detail').innerText(), /occupancy/);
  assert.equal(await overflow(page), 0, 'nor with the details open');
  await page.context().close();
});

test('fingers move, pinch and tap', async () => {
  const page = await open(PAGE, PHONE);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  const client = await page.context().newCDPSession(page);
  const touch = (type, ...points) => client.send('Input.dispatchTouchEvent', { type, touchPoints: points.map(([x, y], id) => ({ x: box.x + x, y: box.y + y, id })) });
  // Two fingers apart: in.
  await touch('touchStart', [180, 100], [220, 100]);
  for (let i = 1; i <= 8; i++) await touch('touchMove', [180 - i * 8, 100], [220 + i * 8, 100]);
  await touch('touchEnd');
  const pinched = await view(page);
  assert.ok(pinched && width(pinched) < 60e6, `in: ${JSON.stringify(pinched)}`);
  // One finger to the left: later.
  await touch('touchStart', [300, 100]);
  for (let i = 1; i <= 8; i++) await touch('touchMove', [300 - i * 10, 100]);
  await touch('touchEnd');
  const moved = await view(page);
  assert.ok(moved.from > pinched.from + 1e6, 'later');
  assert.ok(Math.abs(width(moved) - width(pinched)) < 10, 'no nearer');
  // A tap selects what is there.
  await page.keyboard.press('f');
  await settled(page);
  await page.touchscreen.tap(box.x + 150, box.y + 158);
  assert.match(await page.locator('#timeline-detail').innerText(), /cudaSetDevice|cudaModuleLoadData/);
  await page.context().close();
});

test('there is one heading of the first level, and every landmark', async () => {
  const page = await open(PAGE);
  assert.equal(await page.locator('h1').count(), 1);
  for (const landmark of ['banner', 'main', 'navigation', 'contentinfo', 'search']) assert.equal(await page.getByRole(landmark).count(), 1, landmark);
  await page.context().close();
});
