// Whatever an agent streams (test/judges/fuzzagent_test.go), read by both official clients and
// by a strict reader of TDesign's stream.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';

import { Talk, clients } from './lib/clients.mjs';
import { newId, post } from './lib/server.mjs';
import { frames } from './lib/stream.mjs';
import { readTDesign } from './lib/tdesignreader.mjs';

const streams = Number(process.env.AQUEDUCT_FUZZ_STREAMS);
const first = Number(process.env.AQUEDUCT_FUZZ_FROM ?? 0);
const atOnce = 6;

// Streams are read side by side: a complaint belongs to the one in whose context it is made.
const context = new AsyncLocalStorage();
const strays = [];
for (const level of ['warn', 'error']) {
  console[level] = (...words) => (context.getStore() ?? strays).push(`console.${level}: ${words.map(String).join(' ')}`);
}

const counts = {}; // of events by type, and of Runs by how they ended
const count = (what) => { counts[what] = (counts[what] ?? 0) + 1; };

async function readByClient(client, n) {
  const talk = new Talk(client);
  const run = await talk.say(`fuzz ${n}`);
  oneTerminal(run);
  count(run.last.code ?? run.last.outcome?.type ?? 'finished');
  run.types.forEach(count);
  if (talk.interrupts.length === 0) oneTerminal(await talk.join()); // with all it holds
  oneTerminal(await new Talk(client, { threadId: talk.threadId }).join()); // with nothing
}

function oneTerminal(run) {
  const ends = run.types.filter((t) => t === 'RUN_FINISHED' || t === 'RUN_ERROR');
  assert.equal(ends.length, 1, run.types.join(' '));
  assert.equal(run.types.at(-1), ends[0], run.types.join(' '));
}

async function readByTDesign(n) {
  const response = await post('/api/agui/chat', { prompt: `fuzz ${n}` }, { headers: { 'X-Thread-Id': newId('t') } });
  readTDesign(await frames(response));
}

const readers = [
  ...clients.map((client) => ({ name: client.name, read: (n) => readByClient(client, n) })),
  { name: 'TDesign', read: readByTDesign },
];

test(`${streams} streams in three dialects`, { timeout: 3_600_000 }, async (t) => {
  const failures = [];
  let next = first;
  const work = async () => {
    while (next < first + streams) {
      const n = next;
      next += 1;
      for (const { name, read } of readers) {
        const complaints = [];
        try {
          await context.run(complaints, () => read(n));
          assert.deepEqual(complaints, [], 'the client complained');
        } catch (error) {
          failures.push(`stream ${n}, ${name}: ${error.message}`);
        }
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  t.diagnostic(JSON.stringify(counts));
  assert.deepEqual(strays, [], 'complaints of no stream');
  assert.equal(failures.length, 0, `${failures.length} failures\n${failures.slice(0, 20).join('\n')}`);
});
