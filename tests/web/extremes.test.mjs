// Traces that are hostile, empty or huge.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colors, open, settled, view, width } from './browser.mjs';

test('hostile names are text and nothing else', async () => {
  const page = await open('hostile.html');
  assert.deepEqual(page.problems, []);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.equal(await page.locator('#main img, #main script, #main b, #main iframe').count(), 0);
  const text = await page.locator('#panel-functions').innerText();
  assert.ok(text.includes('</script><script>window.owned=1</script>'), text.slice(0, 400));
  assert.ok(text.includes('<img src=x onerror=window.owned=1>'));
  assert.ok(text.includes('⟨U+202E⟩'), 'marks that turn text around are shown');
  assert.ok(text.includes('⟨U+0000⟩'));
  await page.locator('#search').fill('<img');
  await page.keyboard.press('Enter');
  assert.match(await page.locator('#timeline-detail h3').innerText(), /<img/);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  await page.context().close();
});

test('the policy lets no script and no request through', async () => {
  const page = await open('inference.html');
  const outcome = await page.evaluate(async () => {
    const script = document.createElement('script');
    script.textContent = 'window.owned = 1';
    document.body.append(script);
    const reached = await fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused');
    return { owned: window.owned, reached };
  });
  assert.deepEqual(outcome, { owned: undefined, reached: 'refused' });
  assert.ok(page.problems.some((line) => line.includes('Content Security Policy')));
  await page.context().close();
});

test('an empty trace is a page, too', async () => {
  const page = await open('empty.html');
  assert.deepEqual(page.problems, []);
  assert.match(await page.locator('#headline').innerText(), /Wall time/);
  assert.match(await page.locator('#panel-functions').innerText(), /None in this trace/);
  for (const key of ['w', 's', 'a', 'd', 'f', 'Escape']) await page.keyboard.press(key);
  await page.locator('#timeline-canvas').focus();
  for (const key of ['Enter', 'ArrowLeft', 'ArrowDown', 'End']) await page.keyboard.press(key);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('what nobody looked for is not said to be nothing', async () => {
  const page = await open('system.html');
  assert.deepEqual(page.problems, []);
  const headline = await page.locator('#headline').innerText();
  assert.match(headline, /CUDA API calls\s+–\s+not traced/i);
  assert.match(headline, /GPU busy\s+–\s+not traced/i);
  assert.doesNotMatch(headline, /Kernel launches|Transferred/i);
  assert.match(await page.locator('#idle-body').innerText(), /GPU idle time is unknown/);
  assert.match(await page.locator('#memory-body').innerText(), /allocations are unknown/);
  assert.equal(await page.locator('#phases').innerText(), '');
  await page.context().close();
});

test('ten thousand threads scroll', async () => {
  const before = Date.now();
  const page = await open('threads.html');
  const took = Date.now() - before;
  assert.ok(took < 15_000, `${took} ms to open`);
  assert.deepEqual(page.problems, []);
  assert.match(await page.locator('#tab-threads').innerText(), /10.000/);
  const scroller = page.locator('#timeline-scroll');
  const height = await scroller.evaluate((node) => node.scrollHeight);
  assert.ok(height > 200_000, `${height}`);
  await scroller.evaluate((node) => (node.scrollTop = node.scrollHeight / 2));
  await settled(page);
  const drawn = await colors(page, { x: 200, y: 40, width: 1000, height: 300 });
  assert.ok(drawn.length > 3, 'the middle is drawn');
  await page.locator('#tab-threads').click();
  await page.locator('#panel-threads tbody button').nth(5).click();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('a dense trace shows what dominates, and says what it summed up', async () => {
  const page = await open('dense.html');
  assert.deepEqual(page.problems, []);
  assert.match(await page.locator('#footer').innerText(), /combined into cells/);
  const drawn = await colors(page, { x: 200, y: 60, width: 1000, height: 100 });
  assert.ok(drawn.length > 4);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  // Far in, a cell says how many calls it stands for.
  for (let i = 0; i < 14; i++) await page.keyboard.press('w');
  assert.ok(width(await view(page)) > 0);
  let text = '';
  for (let x = 300; x < 1300 && !text.includes('summary of'); x += 40) {
    await canvas.hover({ position: { x, y: 62 } });
    text = await page.locator('#tooltip').innerText();
  }
  assert.match(text, /^\d+ calls?(:|, (all|mostly|most often) )/);
  assert.match(text, /summary of/);
  assert.match(text, /detail needs cutrace view/);
  assert.match(await page.locator('#footer').innerText(), /use cutrace view/);
  await page.context().close();
});

test('spans that never ended and clocks that step are shown', async () => {
  const page = await open('odd.html');
  assert.deepEqual(page.problems, []);
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Enter');
  assert.match(await page.locator('#timeline-detail').innerText(), /never ended/);
  await page.context().close();
});
