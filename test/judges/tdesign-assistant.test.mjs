// The agent that comes with the server, in the real TDesign Chat. The model behind it is scripted (assistant_test.go).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Chat } from './lib/tdesign.mjs';

let chat;

before(async () => {
  chat = await Chat.open('tdesign', 'aqueduct-tdesign-thread', JSON.parse(process.env.ASSISTANT_FLAGS));
});

after(() => chat?.close());

test('text, a tool, and the model is sent the thread', async () => {
  await chat.newThread();
  await chat.send('hello');
  await chat.shows('You wrote: hello');
  await chat.idle();
  await chat.send('call wood_cut {"n":1}');
  await chat.shows(/The tools gave .*ran_with/);
  await chat.idle();
  await chat.send('tell');
  await chat.shows(/user:"hello" assistant:"You wrote: hello"/);
  chat.fine();
});

for (const [button, words] of [['Allow once', /The tools gave .*ran_with/], ['Reject', /The tools gave .*rejected/]]) {
  test(`a tool that needs approval: ${button}`, async () => {
    await chat.newThread();
    await chat.send('call bank_pay {"amount":100}');
    await chat.click(button);
    await chat.shows(words);
    assert.equal((await chat.thread()).questions.length, 0);
    chat.fine();
  });
}
