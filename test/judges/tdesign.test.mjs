// The real TDesign Chat for React in a real browser: examples/tdesign by its README's commands.
//
// The page posts {threadId, prompt, toolCallMessage}. That body has no room for tools, pictures
// and state that go up: TDesign builds none itself, and a page that wants them builds a
// RunAgentInput, as examples/tdesign-vue does with the same engine. TDesign has no way to edit
// a message that was sent.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Stranger, stream } from './lib/hostile.mjs';
import { Chat, matrix } from './lib/tdesign.mjs';

let chat;

before(async () => {
  chat = await Chat.open('tdesign', 'aqueduct-tdesign-thread');
});

after(() => chat?.close());

matrix(test, () => chat);

test('the travel planner: weather, state, activity, preferences', async () => {
  await chat.newThread();
  await chat.send('all');
  await chat.shows('Weather in 北京');
  await chat.shows('25 °C');
  await chat.shows('相关股票');
  await chat.shows('100');
  await chat.shows(/State: .*plan_task/, { state: 'attached' });
  await chat.click('舒适型');
  await chat.shows(/推荐以下行程/);
  chat.fine();
});

test('an activity is worked off', async () => {
  await chat.newThread();
  await chat.send('activity');
  await chat.shows('Tidy the workshop');
  await chat.shows('All of it is done.');
  await chat.shows('Rest');
  assert.equal(await chat.page.locator('.plan').count(), 1, 'drawn twice');
  chat.fine();
});

test('a WebSocket through Vite', async () => {
  const opened = await chat.page.evaluate(() => new Promise((resolve) => {
    const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/ws/client`);
    socket.onopen = () => resolve(true);
    socket.onerror = () => resolve(false);
  }));
  assert.ok(opened);
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
