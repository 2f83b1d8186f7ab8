// Chrome's trace JSON, opened by a viewer that others wrote: Speedscope, which says on its console
// what it could not make sense of.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { blank } from './browser.mjs';

const VIEWER = join(process.env.CUTRACE_WEB, 'node_modules/speedscope/dist/release/index.html');
const TRACES = readdirSync(process.env.CUTRACE_PAGES).filter((name) => name.startsWith('chrome-'));

test('Speedscope reads every recorded trace without complaint', async () => {
  assert.ok(TRACES.length >= 6, TRACES.join(' '));
  for (const name of TRACES) {
    const page = await blank();
    const said = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(`error: ${error}`));
    await page.goto(String(pathToFileURL(VIEWER)));
    await page.locator('input[type=file]').first().setInputFiles(join(process.env.CUTRACE_PAGES, name));
    // The profile's own name: the first track's, with its process.
    await page.getByText(/\((pid \d+|tid \d+)\)/).first().waitFor({ timeout: 20_000 });
    assert.ok(said.includes('Importing as Trace Event Format profile'), said.join('\n'));
    const complaints = said.filter((text) => /Tried to end|still open|error/i.test(text));
    assert.deepEqual(complaints, [], name);
    await page.context().close();
  }
});
