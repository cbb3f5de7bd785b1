// The agent that comes with the server, in the real TDesign Chat. The model behind it is scripted (assistant_test.go).

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Chat } from './lib/tdesign.mjs';
import { fetch } from './lib/token.mjs';

const flags = JSON.parse(process.env.ASSISTANT_FLAGS);
const picture = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

/** on runs tests on one of the pages. */
function on(folder, threadKey, tests) {
  describe(folder, () => {
    let chat;
    before(async () => {
      chat = await Chat.open(folder, threadKey, flags);
    });
    after(() => chat?.close());
    for (const [name, run] of Object.entries(tests)) {
      test(name, async () => {
        await chat.newThread();
        await run(chat);
        chat.fine();
      });
    }
  });
}

on('tdesign', 'aqueduct-tdesign-thread', {
  async 'text, a tool, and the model is sent the thread'(chat) {
    await chat.send('hello');
    await chat.shows('You wrote: hello');
    await chat.idle();
    await chat.send('call wood_cut {"n":1}');
    await chat.shows(/The tools gave .*ran_with/);
    await chat.idle();
    await chat.send('tell');
    await chat.shows(/user:"hello" assistant:"You wrote: hello"/);
  },

  async 'a tool that needs approval, approved'(chat) {
    await chat.send('call bank_pay {"amount":100}');
    await chat.click('Allow once');
    await chat.shows(/The tools gave .*ran_with.*100/);
    assert.equal((await chat.thread()).questions.length, 0);
  },

  async 'a tool that needs approval, rejected'(chat) {
    await chat.send('call bank_pay {"amount":100}');
    await chat.click('Reject');
    await chat.shows(/The tools gave .*rejected/);
    assert.equal((await chat.thread()).questions.length, 0);
  },

  // The page has no field to edit arguments in: an approver does it in the inbox, and the page is opened again.
  async 'a tool that needs approval, its arguments edited in the inbox'(chat) {
    await chat.send('call bank_pay {"amount":100}');
    await chat.shows('bank.pay');
    const [id] = await chat.until('the question', async () => (await chat.thread()).questions);
    const decided = await fetch(`${chat.program.url}/api/approvals/${id}/decision`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ decision: 'approve', edited_args: { amount: 7 } }),
    });
    assert.equal(decided.status, 200);
    await chat.reload();
    await chat.shows(/The tools gave .*ran_with.*7/);
    assert.ok(!(await chat.agentTexts()).join().includes('100'));
  },

  async 'tools of MCP servers, over standard streams and over HTTP'(chat) {
    for (const [tool, words] of [['every_echo', 'near'], ['far_echo', 'far']]) {
      await chat.send(`call ${tool} {"message":"${words}"}`);
      await chat.click('Allow once');
      await chat.shows(new RegExp(`The tools gave .*Echo: ${words}`));
      await chat.idle();
    }
  },

  async 'a budget that is used up'(chat) {
    await chat.send('spend wood_cut {"n":2}');
    await chat.shows('budget.extend');
    await chat.shows(/"add": 260/);
    await chat.click('Allow once');
    await chat.shows(/The tools gave .*ran_with/);
  },
});

// This one posts a RunAgentInput, with a tool of its own and pictures.
on('tdesign-vue', 'aqueduct-tdesign-vue-thread', {
  async 'a tool of the page'(chat) {
    await chat.send('call pick_color {}');
    await chat.shows('Which color?');
    await chat.click('amber');
    await chat.shows(/The tools gave .*amber/);
  },

  async 'a picture'(chat) {
    await chat.page.getByLabel('Picture').setInputFiles({ name: 'p.png', mimeType: 'image/png', buffer: picture });
    await chat.send('what is it?');
    await chat.shows(/A picture of \d+ bytes/);
  },

  async 'a tool that needs approval'(chat) {
    await chat.send('call bank_pay {"amount":3}');
    await chat.click('Allow once');
    await chat.shows(/The tools gave .*ran_with.*3/);
  },
});
