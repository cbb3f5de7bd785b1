// The real TDesign Chat for Vue in a real browser: examples/tdesign-vue by its README's commands.
//
// The page posts a RunAgentInput of its own making, with tools, pictures and state. TDesign has
// no way to edit a message that was sent, so that is left out.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Stranger, stream } from './lib/hostile.mjs';
import { Chat, matrix } from './lib/tdesign.mjs';
import { fetch } from './lib/token.mjs';

let chat;

before(async () => {
  chat = await Chat.open('tdesign-vue', 'aqueduct-tdesign-vue-thread');
});

after(() => chat?.close());

matrix(test, () => chat);

test('frontend tool: the page runs it, and the agent gets the result', async () => {
  await chat.newThread();
  await chat.send('client_tool');
  await chat.shows('Which color?');
  await chat.click('amber');
  await chat.shows(/Your frontend answered: .*amber/);
  chat.fine();
});

test("shared state: the page's is the base of the agent's, and both are kept", async () => {
  await chat.newThread();
  await chat.page.getByLabel('Color').fill('teal');
  await chat.send('state');
  await chat.shows(/"progress": 100/, { state: 'attached' });
  await chat.idle();
  const joined = await fetch(`${chat.program.url}/api/agui/connect`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ protocolVersion: '1.0', threadId: await chat.threadId, runId: '', messages: [] }),
  });
  const events = Array.from((await joined.text()).matchAll(/^data: (.*)$/gm), ([, data]) => JSON.parse(data));
  const { snapshot } = events.find((e) => e.type === 'STATE_SNAPSHOT');
  assert.equal(snapshot.filter?.color, 'teal', JSON.stringify(snapshot));
  assert.equal(snapshot.report.progress, 100);
  chat.fine();
});

test('picture: the history has each, byte for byte', async () => {
  await chat.newThread();
  const files = [Buffer.alloc(1150 * 1024, 1), Buffer.alloc(1000, 2)]; // 1.5 MiB as text: the page sends no history along
  for (const [i, buffer] of files.entries()) {
    await chat.page.getByLabel('Picture').setInputFiles({ name: 'p.png', mimeType: 'image/png', buffer });
    await chat.send('text');
    await chat.until(`answer ${i + 1}`, async () => (await chat.agentTexts()).length === i + 1);
    await chat.idle();
  }
  const pictures = (await chat.history()).flatMap((m) => m.attachments ?? []);
  assert.equal(pictures.length, files.length);
  for (const [i, { url, mimeType }] of pictures.entries()) {
    const bytes = Buffer.from(await (await fetch(chat.program.url + url)).arrayBuffer());
    assert.ok(mimeType === 'image/png' && bytes.equals(files[i]), `picture ${i + 1} is another: ${mimeType}, ${bytes.length} bytes`);
  }
  await chat.reload();
  await chat.shows(/miss nothing/);
  chat.fine();
});

test('S57, S61: remote pictures are links, hostile titles are text, and a policy is sent', async () => {
  const policy = (await globalThis.fetch(chat.url)).headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'; script-src 'self';/);
  const stranger = await Stranger.start();
  try {
    await chat.newThread();
    await chat.page.route('**/api/agui/chat*', (route) => route.fulfill({ contentType: 'text/event-stream', body: stream('hostile', stranger.url) }));
    await chat.send('hello');
    await chat.shows('after it all');
    await chat.until('four activities', async () => await chat.page.locator('.plan').count() === 4);
    assert.equal(await chat.page.locator('.plan img').count(), 0);
    await chat.shows(/<img src=x onerror=/);
    await chat.page.locator(`a[href="${stranger.url}/cat.png"]`).waitFor();
    assert.notEqual(await chat.page.title(), 'owned');
    assert.deepEqual(stranger.asked, []);
  } finally {
    await chat.page.unroute('**/api/agui/chat*');
    stranger.close();
  }
  chat.trouble.splice(0); // what the policy kept out is on the console
});
