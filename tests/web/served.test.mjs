// The page as `cutrace view` serves it, of a trace of which it carries only a part. CUTRACE_ADDRESS is where,
// CUTRACE_SERVER the server's process.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goTo, settled, view, width } from './browser.mjs';

const plain = (text) => text.replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');

const open = (hash = '') => goTo(`${process.env.CUTRACE_ADDRESS}${hash}`);

// What is in sight is as fine as it gets.
const fine = (page) => page.waitForFunction(() => document.documentElement.dataset.detail === 'shown', null, { timeout: 20_000 });

const detail = async (page, pattern) => {
  await page.waitForFunction((source) => new RegExp(source).test(document.getElementById('timeline-detail').innerText), pattern.source, { timeout: 20_000 });
  return plain(await page.locator('#timeline-detail').innerText());
};

test('from the whole run to one named call and its arguments', async () => {
  const page = await open();
  await page.locator('#timeline-canvas').scrollIntoViewIfNeeded();
  const canvas = await page.locator('#timeline-canvas').boundingBox();
  // The main thread's outermost row, in the middle of the run.
  const y = await page.evaluate(() => {
    const text = [...document.querySelectorAll('#timeline-text-body th[scope=row]')].map((cell) => cell.textContent);
    return text.length;
  });
  assert.ok(y > 1);
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('w');
    await fine(page);
    const part = await view(page);
    if (part && width(part) < 60_000) break;
  }
  // Some row there has single calls: a press selects one, and the server says what it was given.
  let found = '';
  for (let at = 60; at < canvas.height - 10 && !/Arguments/.test(found); at += 17) {
    for (let x = 250; x < 1300 && !/Arguments/.test(found); x += 150) {
      await page.mouse.click(canvas.x + x, canvas.y + at);
      await settled(page);
      if (await page.locator('#timeline-detail').isVisible()) found = plain(await page.locator('#timeline-detail').innerText());
    }
  }
  assert.match(found, /Arguments/);
  assert.match(found, /op_id \d+/);
  assert.deepEqual(page.problems, []);
  const origin = new URL(process.env.CUTRACE_ADDRESS).origin;
  assert.deepEqual(page.requests.filter((url) => !url.startsWith(origin)), []);
  await page.context().close();
});

test('a search asks the server, and walks to calls that the page does not carry', async () => {
  const page = await open();
  await page.locator('#search').fill('RM_ALLOC');
  await page.waitForFunction(() => /match/.test(document.getElementById('search-status').textContent));
  await page.keyboard.press('Enter');
  const text = await detail(page, /RM_ALLOC[\s\S]*(Request|Arguments)/);
  assert.match(text, /Inside /);
  assert.match(plain(await page.locator('#search-status').innerText()), /^match 1 of/);
  const first = await view(page);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /^match 2 of/.test(document.getElementById('search-status').textContent));
  assert.notDeepEqual(await view(page), first);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('a call that is only on the server is found by its address', async () => {
  const page = await open();
  await page.locator('#search').fill('cudaMalloc');
  await page.keyboard.press('Enter');
  const text = await detail(page, /op_id/);
  const id = /op_id (\d+)/.exec(text)[1];
  await page.context().close();
  const other = await open(`#op=${id}`);
  assert.match(await detail(other, /op_id/), new RegExp(`op_id ${id}\\b`));
  await other.context().close();
});

test('without its server the page says so and goes on', { skip: !process.env.CUTRACE_SERVER }, async () => {
  const page = await open();
  process.kill(Number(process.env.CUTRACE_SERVER), 'SIGKILL');
  for (let step = 0; step < 14; step++) await page.keyboard.press('w');
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Home');
  await page.getByText('cutrace view has ended').waitFor({ timeout: 20_000 });
  await page.keyboard.press('f');
  assert.equal(await view(page), null, 'keys work');
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await page.locator('#timeline-detail').innerText(), /duration/);
  await page.context().close();
});
