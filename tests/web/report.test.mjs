// The report of an ordinary run: what a reader does with it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colors, open, settled, view, width } from './browser.mjs';

const PAGE = 'inference.html';
const PLOT = { x: 700, y: 60 };

test('it loads without complaint, and from nowhere else', async () => {
  const page = await open(PAGE);
  assert.deepEqual(page.problems, []);
  assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
  assert.equal(page.requests.length, 1);
  assert.match(await page.title(), /tokens/);
  assert.match(await page.locator('#headline').innerText(), /Wall time\s+\d/);
  assert.match(await page.locator('#badges').innerText(), /simulated GPU/);
  assert.match(await page.locator('#badges').innerText(), /17 events lost/);
  const drawn = await colors(page, { x: 180, y: 30, width: 1200, height: 200 });
  assert.ok(drawn.length > 6, `the timeline has colours: ${drawn.length}`);
  await page.context().close();
});

test('the wheel zooms where the mouse is', async () => {
  const page = await open(PAGE);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  await page.waitForTimeout(300); // A wheel that scrolled the page there does not zoom.
  await canvas.hover({ position: PLOT });
  assert.equal(await view(page), null);
  await page.mouse.wheel(0, -240);
  const first = await view(page);
  await page.mouse.wheel(0, -240);
  const second = await view(page);
  assert.ok(width(second) < width(first), 'twice in is further in');
  assert.ok(second.from > first.from && second.to < first.to, 'around the mouse');
  for (let i = 0; i < 12; i++) await page.mouse.wheel(0, 240);
  assert.equal(await view(page), null, 'and out again to everything');
  await page.context().close();
});

test('keys zoom and move, wherever the focus is', async () => {
  const page = await open(PAGE);
  await page.keyboard.press('w');
  await page.keyboard.press('w');
  const zoomed = await view(page);
  await page.keyboard.press('d');
  const later = await view(page);
  assert.ok(later.from > zoomed.from && Math.abs(width(later) - width(zoomed)) < 3);
  await page.keyboard.press('a');
  assert.ok(Math.abs((await view(page)).from - zoomed.from) < 3);
  await page.keyboard.press('s');
  assert.ok(width(await view(page)) > width(zoomed));
  await page.keyboard.press('f');
  assert.equal(await view(page), null);
  await page.locator('#zoom-in').click();
  assert.ok((await view(page)) !== null, 'and so do buttons');
  await page.context().close();
});

test('the timeline is described in words as it moves', async () => {
  const page = await open(PAGE);
  await page.keyboard.press('w');
  const live = page.locator('#timeline-live');
  await page.waitForFunction(() => document.getElementById('timeline-live').textContent.startsWith('Showing'));
  assert.match(await live.innerText(), /Showing .* of 121.ms: .* operations; most time in/);
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('Enter');
  assert.match(await live.innerText(), /sync|init|kernel|memory|transfer|module/);
  const first = await page.locator('#timeline-detail').innerText();
  await page.keyboard.press('ArrowRight');
  assert.notEqual(await page.locator('#timeline-detail').innerText(), first, 'arrows move between calls');
  await page.keyboard.press('ArrowDown');
  assert.match(await page.locator('#timeline-detail').innerText(), /Inside/);
  await page.keyboard.press('Escape');
  assert.ok(await page.locator('#timeline-detail').isHidden());
  await page.context().close();
});

test('search filters tables, and Enter goes from match to match', async () => {
  const page = await open(PAGE);
  await page.keyboard.press('/');
  await page.keyboard.type('synchron');
  const names = page.locator('#panel-functions tbody th');
  await page.waitForFunction(() => document.querySelectorAll('#panel-functions tbody tr').length === 2);
  assert.deepEqual((await names.allInnerTexts()).sort(), ['cuStreamSynchronize', 'cudaStreamSynchronize']);
  await page.keyboard.press('Enter');
  assert.match(await page.locator('#timeline-detail h3').innerText(), /StreamSynchronize/);
  const first = await view(page);
  await page.keyboard.press('Enter');
  assert.notDeepEqual(await view(page), first);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelectorAll('#panel-functions tbody tr').length > 10);
  await page.locator('#search').fill('no such name');
  await page.waitForFunction(() => document.querySelector('#panel-functions tbody').textContent.includes('Nothing matches'));
  await page.context().close();
});

test('tables sort both ways, and a row leads to its place', async () => {
  const page = await open(PAGE);
  const panel = page.locator('#panel-functions');
  const column = async (index) => (await panel.locator(`tbody td:nth-child(${index})`).allInnerTexts()).map((text) => Number(text.replace(/\D/g, '')));
  const head = panel.locator('thead th:nth-child(3)');
  await head.locator('button').click();
  assert.equal(await head.getAttribute('aria-sort'), 'descending');
  const down = await column(3);
  assert.deepEqual(down, [...down].sort((a, b) => b - a));
  await head.locator('button').click();
  assert.equal(await head.getAttribute('aria-sort'), 'ascending');
  const up = await column(3);
  assert.deepEqual(up, [...up].sort((a, b) => a - b));
  await panel.getByRole('button', { name: 'cudaModuleLoadData', exact: true }).click();
  assert.match(await page.locator('#timeline-detail h3').innerText(), /cudaModuleLoadData/);
  assert.ok(width(await view(page)) < 30e6);
  await page.context().close();
});

test('kernels have short names, and whole ones where one is looked at', async () => {
  const page = await open(PAGE);
  await page.getByRole('tab', { name: /^Kernels/ }).click();
  const whole = 'void gemm<float, 128, 64>(float const*, float const*, float*)';
  const cell = page.locator('#panel-kernels tbody th').filter({ hasText: 'gemm' });
  assert.equal(await cell.innerText(), 'gemm<float,128,64>');
  assert.equal(await cell.getAttribute('title'), whole);
  await cell.getByRole('button').click();
  const panel = page.locator('#timeline-detail');
  assert.equal(await panel.locator('h3').innerText(), 'gemm<float,128,64>');
  assert.ok((await panel.innerText()).includes(whole));
  // A search finds it by either name.
  for (const text of ['gemm<float,128', 'gemm<float, 128']) {
    await page.locator('#search').fill(text);
    await page.waitForFunction(() => document.querySelectorAll('#panel-kernels tbody tr').length === 1);
  }
  await page.context().close();
});

test('tabs are tabs', async () => {
  const page = await open(PAGE);
  await page.getByRole('tab', { name: /^Functions/ }).focus();
  await page.keyboard.press('ArrowRight');
  assert.ok(await page.locator('#panel-kernels').isVisible());
  assert.ok(await page.locator('#panel-functions').isHidden());
  assert.match(await page.locator('#panel-kernels').innerText(), /gemm/);
  await settled(page);
  assert.match(page.url(), /tab=kernels/);
  for (const name of [/^Longest/, /^Threads/, /^GPU streams/]) {
    await page.getByRole('tab', { name }).click();
    assert.ok((await page.locator('[role=tabpanel]:visible tbody tr').count()) > 1);
  }
  await page.context().close();
});

test('a finding leads to its place', async () => {
  const page = await open(PAGE);
  const findings = page.locator('.finding');
  assert.ok((await findings.count()) > 0, 'the story has findings');
  assert.equal(await view(page), null);
  await findings.first().getByRole('button', { name: /^Show in the timeline/ }).click();
  assert.notEqual(await view(page), null);
  assert.ok(await page.locator('#timeline-detail').isVisible());
  await page.context().close();
});

test('GPU samples are drawn and described', async () => {
  const page = await open(PAGE);
  const pictures = page.locator('#samples-body figure');
  assert.equal(await pictures.count(), 4, 'the story has no temperature and no PCIe');
  const load = pictures.first();
  assert.match(await load.innerText(), /Utilisation/);
  assert.match(await load.innerText(), /GPU 0 % to 90 %, \d+ % on average/);
  assert.match(await load.innerText(), /memory 0 % to 30 %/);
  assert.match(await page.locator('#samples-body').innerText(), /power 75\.0 W to 525 W/);
  assert.match(await page.locator('#samples-body').innerText(), /SM 345 MHz to 1\s980 MHz/);
  // Two lines, each with what lies below it, and an axis to 100 %.
  assert.equal(await load.locator('svg path').count(), 4);
  assert.match(await load.locator('svg').textContent(), /100 %/);
  // Pressing one leads to that moment.
  assert.equal(await view(page), null);
  await load.locator('svg').click({ position: { x: 200, y: 40 } });
  assert.notEqual(await view(page), null);
  const empty = await open('empty.html');
  assert.equal(await empty.locator('#samples-body').innerText(), '');
  await empty.context().close();
  await page.context().close();
});

test('dragging selects a stretch and sums it up', async () => {
  const page = await open(PAGE);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + 700, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + 900, box.y + 110, { steps: 4 });
  await page.mouse.up();
  const panel = page.locator('#timeline-detail');
  assert.match(await panel.innerText(), /By category/);
  assert.match(await panel.innerText(), /kernel/);
  await panel.getByRole('button', { name: 'Zoom to this' }).click();
  const part = await view(page);
  // 200 of the plot's 1,222 pixels of 121 ms.
  assert.ok(Math.abs(width(part) / 1e6 - 19.8) < 1, `${width(part)}`);
  await page.context().close();
});

test('hovering shows what is there', async () => {
  const page = await open(PAGE);
  const canvas = page.locator('#timeline-canvas');
  await canvas.scrollIntoViewIfNeeded();
  await canvas.hover({ position: { x: 300, y: 158 } });
  const tooltip = page.locator('#tooltip');
  assert.ok(await tooltip.isVisible());
  const text = await tooltip.innerText();
  for (const part of ['SetDevice', 'duration', 'self', 'category', 'status', 'op_id']) assert.ok(text.includes(part), text);
  await page.context().close();
});

test('the address brings back what was seen', async () => {
  const page = await open(PAGE, { hash: '#from=60000000&to=62000000&tab=longest&q=gemm&theme=dark' });
  assert.deepEqual(await view(page), { from: 60000000, to: 62000000 });
  assert.ok(await page.locator('#panel-longest').isVisible());
  assert.equal(await page.locator('#search').inputValue(), 'gemm');
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await page.context().close();
});

test('light and dark, by the system and by hand', async () => {
  const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await open(PAGE, { colorScheme: 'dark' });
  const light = await open(PAGE, { colorScheme: 'light' });
  const [one, other] = [await paper(dark), await paper(light)];
  assert.notEqual(one, other);
  const before = await colors(light, { x: 2, y: 2, width: 4, height: 4 });
  await light.locator('#theme').click();
  assert.equal(await paper(light), one);
  assert.equal(await light.locator('#theme').getAttribute('aria-pressed'), 'true');
  await settled(light);
  assert.notDeepEqual(await colors(light, { x: 2, y: 2, width: 4, height: 4 }), before, 'the canvas follows');
  await dark.context().close();
  await light.context().close();
});

test('on paper everything is there and nothing to press', async () => {
  const page = await open(PAGE);
  await page.emulateMedia({ media: 'print' });
  assert.ok(await page.locator('#search').isHidden());
  assert.ok(await page.locator('#zoom-in').isHidden());
  for (const panel of await page.locator('[role=tabpanel]').all()) assert.ok(await panel.isVisible());
  const pdf = await page.pdf({ format: 'A4', landscape: true });
  assert.ok(pdf.length > 20_000);
  await page.context().close();
});

test('on paper the dark is light', async () => {
  const page = await open(PAGE, { colorScheme: 'dark' });
  const corner = { x: 2, y: 2, width: 2, height: 2 };
  assert.notDeepEqual(await colors(page, corner), ['255,255,255']);
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await settled(page);
  assert.deepEqual(await colors(page, corner), ['255,255,255']);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  await page.context().close();
});

test('help opens, and Escape closes it', async () => {
  const page = await open(PAGE);
  await page.keyboard.press('?');
  assert.ok(await page.locator('#help').isVisible());
  await page.keyboard.press('Escape');
  assert.ok(await page.locator('#help').isHidden());
  await page.context().close();
});

test('the flame graph opens a box and goes back', async () => {
  const page = await open(PAGE);
  const box = (text) => page.locator('.flame-node').filter({ hasText: new RegExp(`^${text}$`) });
  const whole = (await box('generate').boundingBox()).width;
  await box('generate').click();
  assert.ok((await box('generate').boundingBox()).width > whole * 1.5);
  await box('All host threads').click();
  assert.equal((await box('generate').boundingBox()).width, whole);
  await page.getByRole('button', { name: 'GPU time' }).click();
  assert.ok((await page.locator('.flame-node').filter({ hasText: 'gemm' }).count()) > 0);
  await page.context().close();
});

test('a reader that does not see finds its way', async () => {
  const page = await open(PAGE);
  const nameless = await page.evaluate(() => {
    const named = (node) => node.getAttribute('aria-label') || node.textContent.trim() || node.title || node.labels?.length;
    return [...document.querySelectorAll('button, input, a, [role=img], [role=application]')].filter((node) => !named(node)).map((node) => node.outerHTML.slice(0, 90));
  });
  assert.deepEqual(nameless, []);
  for (const landmark of ['banner', 'main', 'navigation', 'contentinfo']) assert.equal(await page.getByRole(landmark).count(), 1, landmark);
  const loose = await page.evaluate(() => [...document.querySelectorAll('th:not([scope])')].length);
  assert.equal(loose, 0, 'every heading of a table says what it heads');
  const unlabelled = await page.evaluate(() => [...document.querySelectorAll('section')].filter((section) => !document.getElementById(section.getAttribute('aria-labelledby'))).length);
  assert.equal(unlabelled, 0);
  await page.locator('#timeline-text summary').click();
  const lanes = await page.locator('#timeline-text tbody tr').count();
  assert.equal(lanes, 5, 'every lane has its line');
  await page.context().close();
});

for (const colorScheme of ['light', 'dark']) {
  test(`every text can be read: ${colorScheme}`, async () => {
    const page = await open(PAGE, { colorScheme });
    await page.locator('#panel-functions tbody button').first().click();
    const faint = await page.evaluate(() => {
      const parse = (color) => color.match(/[\d.]+/g).map(Number);
      const luminance = (rgb) => {
        const [red, green, blue] = rgb.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
          const [red, green, blue, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
          if (alpha > 0.5) return [red, green, blue];
        }
        return [255, 255, 255];
      };
      const found = [];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (walker.currentNode.textContent.trim() === '' || !node.checkVisibility() || node.closest('.visually-hidden, svg, script, style, :disabled, .skip')) continue;
        const [a, b] = [parse(getComputedStyle(node).color).slice(0, 3), behind(node)].map(luminance).sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${((a + 0.05) / (b + 0.05)).toFixed(2)} ${node.tagName} ${node.className}: ${node.textContent.slice(0, 30)}`);
      }
      return found;
    });
    assert.deepEqual(faint, []);
    await page.context().close();
  });
}

test('nothing lies on top of its neighbour, or leaves its picture', async () => {
  const page = await open(PAGE);
  await page.locator('#timeline-canvas').focus();
  await page.keyboard.press('r');
  await page.locator('#timeline-detail .flame-node').first().waitFor();
  const wrong = await page.evaluate(() => {
    const found = [];
    const sorted = (nodes) => [...nodes].map((node) => node.getBoundingClientRect()).sort((a, b) => a.top - b.top || a.left - b.left);
    const overlap = (boxes) => boxes.filter((box, i) => i > 0 && Math.abs(boxes[i - 1].top - box.top) < 1 && boxes[i - 1].right > box.left + 1).length;
    for (const rows of document.querySelectorAll('.flame-rows')) if (overlap(sorted(rows.children)) > 0) found.push('boxes of a flame graph');
    for (const picture of document.querySelectorAll('#histograms svg')) {
      const labels = sorted(picture.querySelectorAll('text'));
      const right = picture.getBoundingClientRect().right;
      if (overlap(labels) > 0 || labels.some((box) => box.right > right + 1)) found.push(picture.getAttribute('aria-label'));
    }
    for (const table of document.querySelectorAll('#timeline-detail table')) {
      const last = (row) => row.querySelector(':scope > :last-child');
      const [head, cell] = [last(table.tHead.rows[0]), last(table.tBodies[0].rows[0])].map((node) => getComputedStyle(node).textAlign);
      if (head !== cell) found.push(`heading ${head}, cells ${cell}`);
    }
    return found;
  });
  assert.deepEqual(wrong, []);
  await page.context().close();
});
