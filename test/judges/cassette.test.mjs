// A thread is exported and served again: both official clients get the same as from the original, and positions and
// bytes have the same hash.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { freePort, running } from './lib/program.mjs';
import { base } from './lib/server.mjs';
import { fetch, token } from './lib/token.mjs';

const folder = mkdtempSync(join(tmpdir(), 'aqueduct-cassette-'));
after(() => rmSync(folder, { recursive: true, force: true }));
afterEach(noComplaints);

const program = process.env.AQUEDUCT;

/** recording is a fetch that keeps the bodies of its responses, and an order for when they came. */
function recording() {
  const bodies = [];
  const record = async (url, init) => {
    const response = await fetch(url, init);
    const [mine, theirs] = response.body.tee();
    bodies.push(new Response(mine).text());
    return new Response(theirs, { status: response.status, headers: response.headers });
  };
  return { record, hashes: async () => (await Promise.all(bodies)).map(hash) };
}

/** hash is that of positions and bytes: comments are no part of it. */
function hash(text) {
  const sum = createHash('sha256');
  for (const block of text.split('\n\n').slice(0, -1)) {
    if (block.startsWith(':')) continue;
    const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(block);
    sum.update(`${id}\t${data}\n`);
  }
  return sum.digest('hex');
}

/** replayed serves a thread's cassette and gives its URL. */
async function replayed(threadId, speed) {
  const exported = execFileSync(program, ['export', '--thread', threadId, '--url', base], {
    env: { ...process.env, AQUEDUCT_TOKEN: token }, maxBuffer: 64 << 20,
  });
  const file = join(folder, `${threadId}.cassette`);
  writeFileSync(file, exported);
  const port = await freePort();
  await running(/listening on/, program, ['replay', file, '--speed', speed, '--listen', `127.0.0.1:${port}`]);
  return `http://127.0.0.1:${port}/api/agui/chat`;
}

/** conversation is a prompt with everything, a question, and its answer; each Run as the client saw it. */
async function conversation(talk) {
  const runs = [];
  for (const word of ['think', 'tool', 'state', 'activity', 'step']) {
    runs.push(await talk.say(word));
    finishedWell(runs.at(-1));
  }
  runs.push(await talk.say('ask'));
  const [question] = asked(runs.at(-1), 1);
  runs.push(await talk.answer([question.id, { approved: true }]));
  finishedWell(runs.at(-1));
  return runs.map((run) => run.events);
}

/** drawn is what a client has drawn, but for prompts: those have ids of the client's own. */
const drawn = (talk) => ({ messages: talk.agent.messages.filter((m) => m.role !== 'user'), state: talk.agent.state });

for (const client of clients) {
  describe(client.name, () => {
    test('a thread is served again as it was', async () => {
      const original = recording();
      const first = new Talk(client, { fetch: original.record });
      const events = await conversation(first);
      const url = await replayed(first.threadId, 'max');
      const again = recording();
      const second = new Talk(client, { url, fetch: again.record });
      assert.deepEqual(await conversation(second), events);
      assert.deepEqual(drawn(second), drawn(first));
      assert.deepEqual(await again.hashes(), await original.hashes());
    });

    test('pauses are divided', async () => {
      const first = new Talk(client);
      await first.say('text');
      const took = async (speed) => {
        const talk = new Talk(client, { url: await replayed(first.threadId, speed) });
        const began = performance.now();
        finishedWell(await talk.say('text'));
        return performance.now() - began;
      };
      const [one, ten] = [await took('1'), await took('10')];
      assert.ok(one > 2 * ten, `${one} ms, and ${ten} ms at ten times the speed`);
    });
  });
}
