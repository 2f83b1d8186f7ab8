// An exported file that has no room for its whole trace: what it keeps, and what it says of the rest. part.json has every span.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { colors, open, settled, view } from './browser.mjs';

const all = JSON.parse(readFileSync(join(process.env.CUTRACE_PAGES, 'part.json'), 'utf8')).map(([id, start, end, status]) => ({ id, start, end, status }));
const plain = (text) => text.replaceAll('\u2009', ' ').replaceAll(/\s+/g, ' ');

// The page's own reader of what it carries.
const reader = ['format', 'dom', 'data', 'event'].map((name) => readFileSync(new URL(`../../web/${name}.js`, import.meta.url), 'utf8')).join('\n');

// What the page carries: the ids of its spans, those that have their arguments, and its head.
const carried = (page) =>
  page.evaluate(`(async () => {
    ${reader}
    const report = await data.load();
    const { timeline } = report;
    const ids = [];
    const described = [];
    for (const row of timeline.rows) {
      for (let i = 0; i < row.kept; i++) {
        ids.push(row.id[i]);
        if (eventOf.embedded(timeline, { row, i })) described.push(row.id[i]);
      }
    }
    return { ids, described, whole: report.whole, aggregated: timeline.aggregated, evidence: report.report.findings.flatMap((finding) => finding.op_ids) };
  })()`);

test('what a person looks for first is kept', async () => {
  const page = await open('part.html');
  const found = await carried(page);
  const kept = new Set(found.ids);
  assert.equal(kept.size, found.ids.length, 'nothing twice');
  assert.equal(kept.size + found.aggregated, all.length, 'everything is there or counted');
  assert.ok(kept.size < all.length / 2, `${kept.size} of ${all.length}: the page has too little room`);

  // An ordinary part of the loop, with every event and its arguments.
  const [from, to] = found.whole;
  const inside = all.filter(({ start, end }) => start < to && end >= from);
  assert.ok(inside.length > 100, `${inside.length}`);
  const described = new Set(found.described);
  assert.deepEqual(inside.filter(({ id }) => !kept.has(id)), []);
  assert.deepEqual(inside.filter(({ id }) => !described.has(id)), []);

  const failed = all.filter(({ status }) => status != null && status !== 0);
  assert.ok(failed.length > 0);
  assert.deepEqual(failed.filter(({ id }) => !kept.has(id)), []);
  assert.ok(found.evidence.length > 0);
  assert.deepEqual(found.evidence.filter((id) => !kept.has(id)), []);
  const longest = [...all].sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, 200);
  assert.deepEqual(longest.filter(({ id }) => !kept.has(id)), []);
  assert.deepEqual(longest.filter(({ id }) => !described.has(id)), [], 'with arguments');
  await page.context().close();
});

test('the page says where it has every call, and shows it', async () => {
  const page = await open('part.html');
  assert.deepEqual(page.problems, []);
  const { whole } = await carried(page);
  assert.match(plain(await page.locator('#phases').innerText()), /does not contain every call\. It has all calls from .* to .*, .* cutrace view shows every call/);
  await page.locator('#phases .kept button').click();
  const part = await view(page);
  assert.ok(part.from <= whole[0] && part.to >= whole[1], JSON.stringify({ part, whole }));
  // There a point is a call or nothing, but no summary.
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  const hover = async (y) => {
    const seen = new Set();
    for (let x = 0.25; x < 0.85; x += 0.02) {
      await page.mouse.move(box.x + 178 + x * (box.width - 178), box.y + y);
      if (await page.locator('#tooltip').isVisible()) seen.add(plain(await page.locator('#tooltip').innerText()));
    }
    return [...seen];
  };
  const rows = [];
  for (let y = 40; y < Math.min(box.height, 360); y += 18) rows.push(...(await hover(y)));
  assert.ok(rows.some((text) => /gemm/.test(text)), 'kernels');
  assert.deepEqual(rows.filter((text) => /summary of/.test(text)), []);
  assert.ok((await colors(page, { x: 200, y: 40, width: 1000, height: 200 })).length > 4);
  // Outside it a cell says what it stands for.
  await page.keyboard.press('f');
  await page.locator('#timeline-canvas').focus();
  await settled(page);
  let text = '';
  for (let y = 40; y < Math.min(box.height, 360) && !/summary of/.test(text); y += 9) text = (await hover(y)).find((found) => /summary of/.test(found)) ?? '';
  assert.match(text, /^\d[\d ]* calls?(:|, (all|mostly|most often) )/);
  assert.match(text, /detail needs cutrace view/);
  await page.context().close();
});

test('a flame graph is made of stretches of which the page has every call, and of no others', async () => {
  const page = await open('part.html');
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('r');
  await page.getByText('does not have every event of this stretch').waitFor();
  assert.equal(await page.locator('#timeline-detail .flame-node').count(), 0);
  const [from, to] = (await carried(page)).whole;
  await page.evaluate(([from, to]) => (location.hash = `from=${from + 1}&to=${to - 1}`), [from, to]);
  await settled(page);
  await page.locator('#sum-up').click();
  await page.locator('#timeline-detail .flame-node').first().waitFor();
  assert.ok((await page.locator('#timeline-detail .flame-node').count()) > 3);
  await page.context().close();
});
