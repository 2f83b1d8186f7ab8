// Compares a trace with what Perfetto's own trace processor makes of its export: the same spans by name, as often and as long,
// and nothing that the processor calls an error.
//
//     node tests/perfetto/verify.mjs CUTRACE TRACE      (tests/perfetto/run sets what it needs)

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { processed } from './processor.mjs';

const [cutrace, trace] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'cutrace-perfetto-'));

// Spans of the trace by name: how many, and how long together. Layers are drawn where Perfetto has a place for them.
async function spans() {
  const child = spawn(cutrace, ['cat', trace], { stdio: ['ignore', 'pipe', 'inherit'] });
  const found = new Map();
  for await (const line of createInterface({ input: child.stdout })) {
    const event = JSON.parse(line);
    if (event.phase !== 'E' || event.duration_us == null) continue;
    const known = found.get(event.name) ?? { count: 0, us: 0 };
    found.set(event.name, { count: known.count + 1, us: known.us + event.duration_us });
  }
  return found;
}

try {
  const file = join(folder, 'trace.pftrace');
  execFileSync(cutrace, ['export', '-f', 'perfetto', trace, '-o', file], { stdio: ['ignore', 'ignore', 'inherit'] });
  const drawn = await processed(file, {
    errors: "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    slices: 'select name, count(*) as count, sum(dur) / 1e3 as us from slice group by name',
    tracks: 'select count(distinct track_id) as count from slice',
    nested: 'select count(*) as count from slice where parent_id is not null',
    annotated: 'select count(*) as count from slice where arg_set_id is not null',
  });
  // Its version does not know the link from a launch to its work yet: newer ones do.
  assert.deepEqual(drawn.errors.filter(({ name }) => name !== 'unknown_extension_fields'), []);
  const expected = await spans();
  const slices = new Map(drawn.slices.map((row) => [row.name, row]));
  let count = 0;
  for (const [name, { count: wanted, us }] of expected) {
    const row = slices.get(name);
    assert.ok(row, `${name.slice(0, 100)} is not drawn`);
    assert.equal(row.count, wanted, `${name.slice(0, 100)} is drawn ${row.count} times, not ${wanted}`);
    assert.ok(Math.abs(row.us - us) <= 0.001 * wanted + 1e-6 * us, `${name.slice(0, 100)}: ${row.us} µs, not ${us}`);
    count += wanted;
  }
  console.log(`${trace}: ${count} spans of ${expected.size} names as in the trace, on ${drawn.tracks[0].count} tracks, ${drawn.nested[0].count} nested, ${drawn.annotated[0].count} with arguments`);
} finally {
  rmSync(folder, { recursive: true });
}
