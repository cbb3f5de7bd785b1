// A page of TDesign Chat in a real browser, served as its README says, in front of an aqueduct
// that may be killed. One page and one browser for all tests of a file.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { launch, openPage } from './chromium.mjs';
import { Program, freePort, running } from './program.mjs';
import { StepAgent } from './stepagent.mjs';
import { fetch } from './token.mjs';

const patience = { timeout: 60_000 };

/** Chat drives one page as a person does. */
export class Chat {
  /** open starts everything: the program, with further flags, "npm run dev" in examples/<folder>, and the page. */
  static async open(folder, threadKey, flags = []) {
    const chat = new Chat();
    try {
      await chat.#open(folder, threadKey, flags);
    } catch (error) {
      await chat.close();
      throw error;
    }
    return chat;
  }

  async #open(folder, threadKey, flags) {
    this.threadKey = threadKey;
    this.program = await Program.start('5ms', flags);
    const cwd = fileURLToPath(new URL(`../../../examples/${folder}`, import.meta.url));
    assert.match(readFileSync(`${cwd}/README.md`, 'utf8'), /^ {4}npm ci && npm run dev /m, 'the README starts the page otherwise');
    const port = await freePort();
    // Its own group: npm starts a shell, and that starts Vite.
    this.vite = await running(/ready in/, 'npm', ['run', 'dev', '--', '--port', String(port), '--strictPort', '--host', '127.0.0.1'], {
      cwd, detached: true, env: { ...process.env, AQUEDUCT_URL: this.program.url },
    });
    this.url = `http://127.0.0.1:${port}/`;
    this.browser = await launch();
    Object.assign(this, await openPage(this.browser, this.url, { signIn: false }));
    await this.ready();
  }

  async close() {
    await this.browser?.close();
    if (this.vite) process.kill(-this.vite.pid, 'SIGKILL');
    await this.program?.close();
  }

  // Vite builds what the page imports when it is first asked for it.
  async ready() {
    await this.box.waitFor(patience);
  }

  get box() {
    return this.page.locator('.t-chat-sender textarea, t-chat-sender textarea').first();
  }

  async newThread() {
    await this.page.getByRole('button', { name: 'New thread' }).click();
    await this.ready();
  }

  async reload() {
    await this.page.reload();
    await this.ready();
  }

  // The page passes over Enter until it has drawn that an answer was stopped: the words stay in the box, and a person sees
  // them there and presses again.
  async send(text) {
    await this.box.fill(text);
    for (const end = Date.now() + patience.timeout; ;) {
      await this.box.press('Enter');
      if (await this.#taken()) return;
      assert.ok(Date.now() < end, `${text}: still in the box after ${patience.timeout} ms`);
    }
  }

  /** taken waits a while for the box to be empty. */
  async #taken() {
    for (const end = Date.now() + 5_000; Date.now() < end;) {
      if (await this.box.inputValue() === '') return true;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    return false;
  }

  /** shows waits for words anywhere in the talk; Playwright looks into shadow trees. */
  async shows(words, options) {
    await this.page.getByText(words).last().waitFor({ ...patience, ...options });
  }

  async click(label) {
    await this.page.getByRole('button', { name: label, exact: true }).last().click(patience);
  }

  /** stop presses the button that stands where "send" was. */
  async stop() {
    await this.page.locator('t-chat-sender, .t-chat-sender').getByRole('button').last().click(patience);
  }

  /** idle waits until the answer is over: that is when it can be regenerated. */
  async idle() {
    await this.page.getByRole('button', { name: 'Regenerate' }).waitFor(patience);
  }

  get threadId() {
    return this.page.evaluate((key) => localStorage.getItem(key), this.threadKey);
  }

  // A thread is unknown until its first message has arrived.
  async get(path, otherwise) {
    const response = await fetch(this.program.url + path);
    if (response.status === 404 && otherwise) return otherwise;
    assert.equal(response.status, 200, path);
    return response.json();
  }

  async thread() {
    return this.get(`/api/threads/${await this.threadId}`);
  }

  async history() {
    return this.get(`/api/threads/${await this.threadId}/messages`, []);
  }

  async until(what, check) {
    for (const end = Date.now() + patience.timeout; ;) {
      const value = await check();
      if (value) return value;
      assert.ok(Date.now() < end, `${what}: not within ${patience.timeout} ms`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  /** fine fails on everything the page has complained of since the last call. */
  fine() {
    assert.deepEqual(this.trouble.splice(0), [], 'the page complained');
  }

  /** state is what the page shows and what the server has, for who reads of a failure. */
  async state() {
    const shown = await this.page.locator('body').innerText().catch(String);
    const [thread, history] = await Promise.all([this.thread(), this.history()]).catch((error) => [String(error)]);
    return `the page shows:\n${shown}\nthe box has: ${await this.box.inputValue().catch(String)}\nthe server has: ${JSON.stringify({ thread, history })}\ntroubles: ${this.trouble}`;
  }

  /** agentTexts is what the agent said, as the history has it. */
  async agentTexts() {
    return (await this.history()).filter((m) => m.role === 'assistant').map((m) => m.content);
  }
}

/** matrix is what every page of TDesign does, whatever body it posts. */
export function matrix(test, open) {
  const it = (name, run) => test(name, async () => {
    const chat = open();
    await chat.newThread();
    await run(chat).catch(async (error) => { throw new Error(`${error.stack}\n${await chat.state()}`); });
    chat.fine();
  });

  it('chat: text streams, thoughts show, two turns', async (chat) => {
    await chat.send('think');
    await chat.shows('I thought about it first: forty-two.');
    await chat.shows(/The question is short/, { state: 'attached' });
    await chat.idle();
    await chat.send('text');
    await chat.shows(/you may close the page at any moment and miss nothing/);
    await chat.shows('I thought about it first: forty-two.');
  });

  it('question: it is clicked, and the chat goes on', async (chat) => {
    await chat.send('ask');
    await chat.shows('Delete the folder build?');
    await chat.click('Allow once');
    await chat.shows(/You allowed it, so I took care of the folder build/);
    await chat.idle();
    await chat.send('ask');
    await chat.until('a second card', async () => await chat.page.getByText('Delete the folder build?').count() === 2);
    await chat.click('Reject');
    await chat.shows(/You said no, so I left the folder build alone/);
  });

  it('two questions come one after the other', async (chat) => {
    await chat.send('asks');
    await chat.shows('Send the mail to Ada?');
    assert.equal(await chat.page.getByText('Pay the invoice of 120 euros?').count(), 0);
    await chat.click('Allow once');
    await chat.shows('Pay the invoice of 120 euros?');
    await chat.click('Reject');
    await chat.shows(/took care of the mail.*left the invoice alone/);
  });

  it('shared state: what the agent sets is shown', async (chat) => {
    await chat.send('state');
    await chat.shows(/State: .*report/, { state: 'attached' });
    await chat.shows(/"progress": 100/, { state: 'attached' });
  });

  it('stop and go on: the next message is answered', async (chat) => {
    await chat.send('slow');
    await chat.shows(/^1 /);
    await chat.stop();
    // A person takes that long to write. A message that comes before the page has drawn the stop is answered, and its answer
    // is in the history, but TDesign never draws it.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await chat.send('text');
    await chat.shows(/miss nothing/);
    await chat.until('one Turn cancelled, one done', async () => (await chat.thread()).lastRun.status === 'FINISHED');
  });

  it('regenerate: another answer in the place of the first', async (chat) => {
    await chat.send('text');
    await chat.shows(/miss nothing/);
    await chat.idle();
    const first = (await chat.thread()).lastRun.id;
    await chat.click('Regenerate');
    const second = await chat.until('a new Run', async () => {
      const { lastRun } = await chat.thread();
      return lastRun.id !== first && lastRun.status === 'FINISHED' && lastRun;
    });
    await chat.shows(/miss nothing/);
    assert.notEqual(second.id, first);
    assert.equal((await chat.agentTexts()).length, 1, 'the history has both answers');
  });

  it('a reload fills the history, and an open question can still be answered', async (chat) => {
    await chat.send('think');
    await chat.shows('forty-two');
    await chat.idle();
    await chat.send('ask');
    await chat.shows('Delete the folder build?');
    await chat.reload();
    await chat.shows('forty-two');
    await chat.shows(/The question is short/, { state: 'attached' });
    await chat.shows('Delete the folder build?');
    await chat.click('Allow once');
    await chat.shows(/You allowed it/);
    await chat.reload();
    await chat.shows(/You allowed it/);
  });

  it('reload after everything that the agent says: nothing is lost or doubled', async (chat) => {
    const agent = await StepAgent.start([
      ['thought', { text: 'Let me see. ' }], ['delta', { text: 'One thing. ' }],
      ['tool_call', { id: 'c', name: 'get_weather', args: { city: 'Oslo' } }], ['tool_result', { id: 'c', content: { temp: 7 } }],
      ['delta', { text: 'Cold.' }], ['done', {}],
    ]);
    await chat.program.kill();
    await chat.program.start('--agent', `steps=${agent.url}`, '--default-agent', 'steps');
    await chat.send('begin');
    await chat.until('the agent is called', () => agent.called);
    const seen = [];
    const shown = { thought: () => 'Let me see.', delta: (text) => text.trim(), tool_call: () => 'Weather in Oslo', tool_result: () => '7 °C', done: () => 'Cold.' };
    for (let frame = agent.next(); frame; frame = agent.next()) {
      seen.push(shown[frame[0]](frame[1].text));
      await chat.shows(seen.at(-1), { state: 'attached' });
      await chat.reload();
      for (const words of seen) await chat.shows(words, { state: 'attached' });
    }
    await chat.until('the Turn is over', async () => (await chat.thread()).lastRun.status === 'FINISHED');
    await chat.reload();
    await chat.shows('Cold.');
    assert.equal(await chat.page.getByText('One thing.').count(), 1, 'shown twice');
    assert.equal(await chat.page.getByText('Weather in Oslo').count(), 1, 'drawn twice');
    await chat.program.kill();
    await chat.program.start();
  });

  it('an error is told in words, and the chat goes on', async (chat) => {
    await chat.send('error');
    await chat.shows('The demo agent failed on purpose.');
    await chat.shows(/This begins well/);
    await chat.send('text');
    await chat.shows(/miss nothing/);
  });

  it('server killed in mid-answer: what was said stays, and the chat goes on', async (chat) => {
    await chat.send('slow');
    await chat.shows(/^1 /);
    await chat.program.kill();
    await chat.program.start();
    await chat.until('the Turn is over', async () => (await chat.thread()).lastRun.status === 'FAILED');
    await chat.reload();
    await chat.shows(/^1 /);
    await chat.send('text');
    await chat.shows(/miss nothing/);
    chat.trouble.length = 0; // the browser reports the connection that was cut
  });
}
