// The page as `cutrace view` serves it, of a trace of which it carries only a part. CUTRACE_ADDRESS is where,
// CUTRACE_SERVER the server's process, CUTRACE_SIZES traces of several sizes. CUTRACE is the program, CUTRACE_FRESH a trace that has no index yet.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { goTo, settled, view, width } from './browser.mjs';

const plain = (text) => text.replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');

const open = (hash = '') => goTo(`${process.env.CUTRACE_ADDRESS}${hash}`);

// What is in sight is as fine as it gets.
const fine = (page) => page.waitForFunction(() => document.documentElement.dataset.detail === 'shown', null, { timeout: 60_000 });

const detail = async (page, pattern) => {
  await page.waitForFunction((source) => new RegExp(source).test(document.getElementById('timeline-detail').innerText), pattern.source, { timeout: 60_000 });
  return plain(await page.locator('#timeline-detail').innerText());
};

// `cutrace view` of a trace that nobody has read before, and its address.
async function fresh() {
  const server = spawn(process.env.CUTRACE, ['view', '--no-open', process.env.CUTRACE_FRESH], { stdio: ['ignore', 'ignore', 'pipe'] });
  const address = await new Promise((done, fail) => {
    let said = '';
    server.stderr.on('data', (text) => {
      said += text;
      const found = /http:\/\/\S+/.exec(said);
      if (found) done(found[0]);
    });
    server.on('exit', () => fail(new Error(said)));
  });
  return { server, address };
}

test('the timeline is there before the report, and stays as it is when that comes', { skip: !process.env.CUTRACE_FRESH }, async () => {
  const { server, address } = await fresh();
  const page = await goTo(address, { early: true });
  assert.equal(await page.locator('#findings').isVisible(), false, 'there is no report yet');
  assert.match(await page.locator('#notices').innerText(), /findings and tables/);
  await page.locator('#timeline-canvas').focus();
  for (let step = 0; step < 6; step++) await page.keyboard.press('w');
  await fine(page);
  const part = await view(page);
  assert.ok(part && width(part) > 0);
  await page.waitForSelector('html[data-ready]', { timeout: 240_000, state: 'attached' });
  assert.deepEqual(await view(page), part, 'what is in view stays');
  assert.equal(await page.locator('#notices').innerText(), '');
  assert.ok((await page.locator('#findings-list').innerText()).length > 20);
  assert.match(plain(await page.locator('#tabs').innerText()), /Functions \d+.*Threads \d+/);
  await page.locator('#search').fill('cuMemAlloc_v2');
  await page.waitForFunction(() => /match/.test(document.getElementById('search-status').textContent));
  await page.keyboard.press('Enter');
  assert.match(await detail(page, /Arguments/), /bytesize/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
  server.kill();
});

// CUTRACE_SIZES: `10000=ADDRESS 300000=ADDRESS`
for (const [events, address] of (process.env.CUTRACE_SIZES ?? '').split(' ').filter(Boolean).map((entry) => entry.split('='))) {
  test(`${events} events: by the wheel from the whole run to one named call`, async () => {
    const NAME = 'cuMemAlloc_v2';
    const instances = await (await fetch(`${address}api/instances?name=${NAME}&by=time`)).json();
    const wanted = instances.matches.at(-1);
    assert.ok(instances.total >= 1 && wanted.duration_ns > 0);
    const page = await goTo(address);
    const canvas = page.locator('#timeline-canvas');
    await canvas.scrollIntoViewIfNeeded();
    await page.waitForTimeout(300); // A wheel that scrolled the page there does not zoom.
    const box = await canvas.boundingBox();
    const end = await page.evaluate(() => Number(document.documentElement.dataset.end));
    const left = 178;
    const middle = wanted.start_ns + wanted.duration_ns / 2;
    const xOf = ({ from, to }) => left + ((middle - from) / (to - from)) * (box.width - left);
    assert.equal(await view(page), null, 'the whole run');
    let part = { from: 0, to: end };
    let steps = 0;
    while (width(part) > 6 * wanted.duration_ns) {
      assert.ok(++steps <= 60, JSON.stringify(part));
      await page.mouse.move(box.x + xOf(part), box.y + 60);
      await page.mouse.wheel(0, -240);
      const next = await view(page);
      assert.ok(next && width(next) < width(part), `step ${steps} goes in`);
      part = next;
      await fine(page);
    }
    assert.ok(steps >= 3, `${steps} steps`);
    // Its bar is somewhere below that moment, and says what it is.
    let y = 40;
    const named = async () => (await page.locator('#tooltip').isVisible()) && (await page.locator('#tooltip strong').innerText()).startsWith(NAME);
    for (; y < box.height; y += 8) {
      await page.mouse.move(box.x + xOf(part), box.y + y);
      if (await named()) break;
    }
    assert.ok(y < box.height, `${NAME} is in sight`);
    await page.mouse.click(box.x + xOf(part), box.y + y);
    const text = await detail(page, /Arguments/);
    assert.match(text, new RegExp(`^${NAME} `));
    assert.match(text, new RegExp(`op_id ${wanted.id}\\b`), 'this one, and no other');
    assert.match(text, /Arguments bytesize 4000000/);
    assert.match(text, /result CUDA_SUCCESS/);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test('from the whole run to one named call and its arguments', async () => {
  const page = await open();
  await page.locator('#timeline-canvas').scrollIntoViewIfNeeded();
  const canvas = await page.locator('#timeline-canvas').boundingBox();
  assert.match(await page.locator('#footer').innerText(), /combined into cells/, 'the page carries a part only');
  for (let step = 0; step < 8; step++) await page.keyboard.press('w');
  await fine(page);
  await settled(page);
  // The lowest launch that can be seen: a call of the host, below the GPU's lanes.
  const spot = await page.evaluate(() => {
    const canvas = document.getElementById('timeline-canvas');
    const wanted = getComputedStyle(document.documentElement).getPropertyValue('--cat-kernel').trim().match(/\w\w/g).map((part) => parseInt(part, 16));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let y = canvas.height - 1; y > 30; y--) {
      for (let x = 260; x < canvas.width - 60; x++) {
        const at = (y * canvas.width + x) * 4;
        if (wanted.every((part, index) => Math.abs(data[at + index] - part) < 4)) return { x, y };
      }
    }
    return null;
  });
  assert.ok(spot, 'a launch is in sight');
  await page.waitForTimeout(300); // A wheel that scrolled the page there does not zoom.
  await page.mouse.move(canvas.x + spot.x, canvas.y + spot.y - 3);
  for (let step = 0; step < 60; step++) {
    await page.mouse.wheel(0, -240);
    const part = await view(page);
    await fine(page);
    if (part && width(part) < 60_000) break;
  }
  assert.ok(width(await view(page)) < 60_000);
  // A press selects it, and the server says what it was given.
  let found = '';
  for (let off = 0; off < 400 && !/Arguments/.test(found); off += 25) {
    await page.mouse.click(canvas.x + spot.x + off, canvas.y + spot.y - 3);
    await settled(page);
    await page.waitForFunction(() => !/Loading arguments/.test(document.getElementById('timeline-detail').innerText), null, { timeout: 60_000 });
    if (await page.locator('#timeline-detail').isVisible()) found = plain(await page.locator('#timeline-detail').innerText());
  }
  // A kernel on the GPU leads to its call.
  if (!/Arguments/.test(found)) {
    assert.match(found, /Kernel grid 4 096 × 1 × 1/);
    await page.locator('#timeline-detail button.link', { hasText: 'LaunchKernel' }).first().click();
    found = await detail(page, /Arguments/);
  }
  assert.match(found, /Arguments/);
  assert.match(found, /LaunchKernel/);
  assert.match(found, /gridDim \[4096,1,1\]|gridDimX 4096/);
  assert.match(found, /result CUDA_SUCCESS/);
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
  await page.locator('#search').fill('cuMemAlloc_v2');
  await page.keyboard.press('Enter');
  const text = await detail(page, /op_id/);
  const id = /op_id (\d+)/.exec(text)[1];
  await page.context().close();
  const other = await open(`#op=${id}`);
  assert.match(await detail(other, /op_id/), new RegExp(`op_id ${id}\\b`));
  await other.context().close();
});

test('the server makes the flame graph of a stretch, as the page would', async () => {
  const page = await open();
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('r');
  const boxes = page.locator('#timeline-detail .flame-node');
  await boxes.first().waitFor({ timeout: 60_000 });
  const title = async (where) => plain(await page.locator(`${where} .flame-node`).first().getAttribute('title'));
  assert.equal(await title('#timeline-detail'), await title('#flame-body'), 'of everything it is the page’s own');
  for (let step = 0; step < 12; step++) await page.keyboard.press('w');
  await fine(page);
  const asked = page.waitForResponse((answer) => answer.url().includes('api/flame'));
  await page.keyboard.press('r');
  await asked;
  await boxes.first().waitFor({ timeout: 60_000 });
  assert.notEqual(await title('#timeline-detail'), await title('#flame-body'));
  assert.ok((await boxes.count()) > 2);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('two traces are one above the other, with what differs', { skip: !process.env.CUTRACE_COMPARED }, async () => {
  const page = await goTo(process.env.CUTRACE_COMPARED);
  assert.equal(await page.locator('.timeline-canvas').count(), 2);
  assert.match(plain(await page.locator('#diff').innerText()), /From A to B .* whole run 471 ms 134 ms/);
  await page.locator('#timeline-canvas-b').focus();
  await page.keyboard.press('w');
  await page.keyboard.press('w');
  const part = await view(page);
  assert.ok(part && width(part) > 0, 'both have one scale: zooming one zooms the other');
  await page.locator('#diff tbody button').first().click();
  assert.ok(await page.locator('#timeline-detail').isVisible());
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('without its server the page says so and goes on', { skip: !process.env.CUTRACE_SERVER }, async () => {
  const page = await open();
  process.kill(Number(process.env.CUTRACE_SERVER), 'SIGKILL');
  for (let step = 0; step < 14; step++) await page.keyboard.press('w');
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Home');
  await page.getByText('cutrace view has ended').waitFor({ timeout: 60_000 });
  await page.keyboard.press('f');
  assert.equal(await view(page), null, 'keys work');
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await page.locator('#timeline-detail').innerText(), /duration/);
  await page.context().close();
});
