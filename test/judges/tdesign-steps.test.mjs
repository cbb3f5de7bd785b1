// The ten steps of TDesign's page about AG-UI, as they stand there (agui/testdata/travel/page.sse), from an agent that speaks
// AG-UI, in the real TDesign Chat for React and for Vue. "all" plays them in one Run. "ask" stops at step 7 and
// goes on with the answer that it is called with: no page declares the tool.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { Chat } from './lib/tdesign.mjs';

const steps = readFileSync(new URL('../../agui/testdata/travel/page.sse', import.meta.url), 'utf8').split('\n').filter((line) => line.startsWith('data: '));
const answered = steps.findIndex((line) => line.includes('TOOL_CALL_RESULT') && line.includes('tc2'));
const end = steps.at(-1);

/** Travel is the agent. */
class Travel {
  calls = [];

  #server = http.createServer((req, res) => this.#answer(req, res)).unref();

  async start() {
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  async #answer(req, res) {
    if (req.method !== 'POST') return void res.writeHead(405).end();
    let text = '';
    for await (const chunk of req.setEncoding('utf8')) text += chunk;
    const { messages } = JSON.parse(text);
    this.calls.push(messages);
    const last = messages.at(-1);
    let lines = steps;
    if (last.role === 'tool') {
      assert.equal(last.toolCallId, 'tc2');
      const { choice } = JSON.parse(last.content);
      lines = [steps[0], ...steps.slice(answered + 1, -1).map((line) => line.replace('您的偏好', choice)), end];
    } else if (last.content === 'ask') {
      lines = [...steps.slice(0, answered), end];
    }
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const line of lines) res.write(`${line}\n\n`);
    res.end();
  }
}

for (const [folder, threadKey] of [['tdesign', 'aqueduct-tdesign-thread'], ['tdesign-vue', 'aqueduct-tdesign-vue-thread']]) {
  describe(folder, () => {
    const agent = new Travel();
    let chat;
    let flags;

    before(async () => {
      flags = ['--agent', `travel=${await agent.start()},protocol=agui`, '--default-agent', 'travel'];
      chat = await Chat.open(folder, threadKey, flags);
    });

    after(() => chat?.close());

    const it = (name, run) => test(name, async () => {
      await chat.newThread();
      await run().catch(async (error) => { throw new Error(`${error.stack}\n${await chat.state()}`); });
      chat.fine();
    });

    const upToTheQuestion = async () => {
      await chat.shows('好的，我来帮您规划行程...');
      await chat.shows('Weather in 北京');
      await chat.shows('25 °C');
      await chat.shows(/State: .*plan_task/, { state: 'attached' });
      await chat.shows(/"progress": 50/, { state: 'attached' });
      await chat.shows('相关股票');
      await chat.shows('100');
    };

    it('the ten steps, verbatim, in one Run', async () => {
      await chat.send('all');
      await upToTheQuestion();
      await chat.shows(/Answered: .*舒适型/);
      await chat.shows('根据您的偏好，推荐以下行程...');
      await chat.idle();
      const { lastRun } = await chat.thread();
      assert.equal(lastRun.status, 'FINISHED');
      assert.equal(agent.calls.length, 1);
      await chat.reload();
      await chat.shows('根据您的偏好，推荐以下行程...');
      await chat.shows('25 °C');
      assert.equal(agent.calls.length, 1, 'a reload called the agent');
    });

    it('the answer of the page to the call that the run left open', async () => {
      const calls = agent.calls.length;
      await chat.send('ask');
      await upToTheQuestion();
      await chat.click('舒适型');
      await chat.shows('根据舒适型，推荐以下行程...');
      await chat.idle();
      assert.equal(agent.calls.length, calls + 2);
      await chat.click('Regenerate'); // TDesign sends the same answer again
      await chat.until('the page is at rest', async () => (await chat.thread()).lastRun.status === 'FINISHED');
      await chat.reload();
      await chat.shows(/Answered: .*舒适型/);
      await chat.shows('根据舒适型，推荐以下行程...');
      assert.equal(agent.calls.length, calls + 2, 'a second answer called the agent');
    });

    it('the answer after a restart of the server and a reload', async () => {
      const calls = agent.calls.length;
      await chat.send('ask');
      await upToTheQuestion();
      await chat.idle();
      await chat.program.kill();
      await chat.program.start(...flags);
      await chat.reload();
      await chat.click('经济型');
      await chat.shows('根据经济型，推荐以下行程...');
      assert.equal(agent.calls.length, calls + 2);
      chat.trouble.length = 0; // the browser reports the connection that was cut
    });
  });
}
