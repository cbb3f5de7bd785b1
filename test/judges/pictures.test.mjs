// Pictures in a chat: both official clients send all of them again with each message, and come back to a thread that is
// larger than what they can read in one frame.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';

import { Talk, clients, finishedWell, noComplaints } from './lib/clients.mjs';
import { base, getJSON, newId } from './lib/server.mjs';
import { fetch } from './lib/token.mjs';

const size = 3 << 19; // 1.5 MiB
const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** picture is a message of a user's with some bytes that nothing compresses. */
function picture(text, bytes = randomBytes(size)) {
  const source = { type: 'data', value: bytes.toString('base64'), mimeType: 'image/png' };
  const message = { id: newId('user'), role: 'user', content: [{ type: 'text', text }, { type: 'image', source }] };
  return { message, sum: sum(bytes) };
}

async function bytesOf(url) {
  const response = await fetch(new URL(url, base));
  assert.equal(response.status, 200, url);
  assert.equal(response.headers.get('content-type'), 'image/png');
  return Buffer.from(await response.arrayBuffer());
}

const pictures = (talk) => talk.agent.messages.flatMap((m) => (Array.isArray(m.content) ? m.content : [])).filter((p) => p.type === 'image');

for (const [i, client] of clients.entries()) {
  const count = i === 0 ? 6 : 4; // four are past the limit of what is new; 0.0.59 needs seconds for each
  test(`${client.name}: ${count} pictures of 1.5 MiB in one thread, and a reload`, async () => {
    const talk = new Talk(client);
    const sums = [];
    for (let n = 0; n < count; n += 1) {
      const sent = picture('text');
      sums.push(sent.sum);
      talk.agent.addMessage(sent.message);
      finishedWell(await talk.run());
    }
    assert.equal(pictures(talk).length, count);

    const reloaded = new Talk(client, { threadId: talk.threadId });
    const run = await reloaded.join();
    finishedWell(run);
    assert.equal(run.custom('history_cut'), undefined, 'it fits');
    assert.deepEqual(reloaded.agent.messages.map((m) => m.id), talk.agent.messages.map((m) => m.id));
    assert.ok(JSON.stringify(run.of('MESSAGES_SNAPSHOT')[0]).length < 1 << 20, 'the snapshot holds URLs, not pictures');
    const shown = pictures(reloaded);
    assert.equal(shown.length, count);
    for (const [n, part] of shown.entries()) {
      assert.equal(part.source.type, 'url');
      assert.equal(part.source.mimeType, 'image/png');
      assert.equal(sum(await bytesOf(part.source.value)), sums[n]);
    }
    // What came back as URLs is sent as URLs, and is the same messages.
    finishedWell(await reloaded.say('text'));
    const again = new Talk(client, { threadId: talk.threadId });
    finishedWell(await again.join());
    assert.deepEqual(again.agent.messages.map((m) => m.id), reloaded.agent.messages.map((m) => m.id));
    noComplaints();
  });

  test(`${client.name}: a thread of 30 MiB is joined, and its beginning read`, async () => {
    const { threadId, ids, first } = await large();
    const talk = new Talk(client, { threadId });
    const run = await talk.join();
    finishedWell(run);
    assert.ok(JSON.stringify(run.of('MESSAGES_SNAPSHOT')[0]).length < 5 << 20, 'one frame');
    const cut = run.custom('history_cut');
    const kept = talk.agent.messages;
    assert.ok(kept.length > 4, `${kept.length} messages`);
    assert.deepEqual(kept.map((m) => m.id), ids.slice(-kept.length), 'the newest');
    assert.deepEqual(cut.cut.filter((id) => !kept.some((m) => m.id === id)), [], 'what is cut is there');
    assert.ok(cut.cut.length >= 7, 'long messages are cut');
    const older = [];
    for (let url = cut.url; url;) {
      const response = await fetch(new URL(url, base));
      assert.equal(response.status, 200);
      older.unshift(...await response.json());
      url = response.headers.get('link')?.match(/<(.*)>/)[1];
    }
    assert.deepEqual([...older, ...kept].map((m) => m.id), ids, 'all, in order');
    assert.equal(older[0].content, first, 'whole');
    // It goes on from there.
    finishedWell(await talk.say('text'));
    ids.push(...talk.agent.messages.slice(-2).map((m) => m.id));
    noComplaints();
  });
}

let made;

/**
 * large makes one thread of 30 MiB for both clients: six messages that a snapshot gives whole, of which some do not fit, and
 * seven that it cuts. Each POST is of a client that has nothing of what was said before.
 */
function large() {
  made ??= (async () => {
    const threadId = newId('thread');
    const ids = [];
    const words = (n) => `text ${'a word and another, '.repeat(n)}`;
    const message = (content) => ({ id: newId('user'), role: 'user', content });
    const posts = [[0, 1, 2], [3, 4, 5]].map((three) => three.map(() => message(words(45_000)))); // 0.9 MB each
    for (let n = 0; n < 7; n += 1) posts.push([message(words(180_000))]); // 3.6 MB
    for (const messages of posts) {
      const talk = new Talk(clients[0], { threadId, messages });
      finishedWell(await talk.run());
      ids.push(...talk.agent.messages.map((m) => m.id));
    }
    return { threadId, ids, first: words(45_000) };
  })();
  return made;
}

test('a thread that is deleted is gone, and its pictures with it', async () => {
  const talk = new Talk(clients[0]);
  talk.agent.addMessage(picture('text').message);
  finishedWell(await talk.run());
  const [message] = await getJSON(`/api/threads/${talk.threadId}/messages?format=agui`);
  const { value } = message.content[1].source;
  assert.equal((await bytesOf(value)).length, size);
  assert.equal((await fetch(`${base}/api/threads/${talk.threadId}`, { method: 'DELETE' })).status, 204);
  assert.equal((await fetch(new URL(value, base))).status, 404);
  const again = new Talk(clients[0], { threadId: talk.threadId });
  finishedWell(await again.say('text'));
  assert.equal(again.agent.messages.length, 2);
  noComplaints();
});
