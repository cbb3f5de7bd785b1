// The npm package @microsoft/fetch-event-source in a browser: it sends its POST again, with Last-Event-ID, when its tab is
// shown again (openWhenHidden: false) and when its line was cut.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch, openPage } from './lib/chromium.mjs';
import { Program } from './lib/program.mjs';
import { until } from './lib/server.mjs';
import { serve } from './lib/static.mjs';
import { StepAgent } from './lib/stepagent.mjs';
import { fetch } from './lib/token.mjs';

const cuts = 50; // of one conversation: half before its question, half after it
const words = Array.from({ length: cuts / 2 }, (_, i) => `word ${i} `);
const delta = (text) => ['delta', { text }];
const question = { id: 'q1', kind: 'permission', title: 'Go on?', options: [{ id: 'yes', label: 'Yes', kind: 'allow_once' }, { id: 'no', label: 'No', kind: 'reject_once' }] };

let agent;
let browser;
let program;
let site;

before(async () => {
  agent = await StepAgent.start(({ resume }) => (resume?.length
    ? [...words.map((w) => delta(w.toUpperCase())), ['done', {}]]
    : [...words.map(delta), ['ask', question], ['done', { pending: ['q1'] }]]));
  program = await Program.start('2ms', ['--agent', `steps=${agent.url}`, '--default-agent', 'steps']);
  site = await serve(fileURLToPath(new URL('node_modules/@microsoft/fetch-event-source/lib/esm/', import.meta.url)), program.url);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await site?.close();
  await program?.close();
});

/** Page is a chat of a few lines: it shows what the events say, in the order in which they come. */
class Page {
  static async open() {
    const page = new Page();
    Object.assign(page, await openPage(browser, `${site.url}index.js`));
    await page.page.evaluate(() => {
      window.shown = { ids: [], types: [], text: '', requests: 0, asked: [], ended: 0 };
      window.post = async (body) => {
        const { fetchEventSource } = await import('/index.js');
        await fetchEventSource('/api/agui/chat', {
          method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Aqueduct-Page': localStorage.aqueduct_page }, body, openWhenHidden: false,
          fetch: (...request) => { shown.requests += 1; return fetch(...request); },
          onmessage: ({ id, data }) => {
            const event = JSON.parse(data);
            if (id) shown.ids.push(Number(id));
            shown.types.push(event.type);
            if (event.type === 'TEXT_MESSAGE_CONTENT') shown.text += event.delta;
            if (event.type === 'TOOL_CALL_ARGS') shown.asked.push({ id: event.toolCallId, args: JSON.parse(event.delta) });
          },
          onerror: () => 1, // come back at once, and not in a second
        });
        shown.ended += 1;
      };
      // What the package looks at: no browser without a screen hides a tab.
      let hidden = false;
      Object.defineProperty(document, 'hidden', { get: () => hidden });
      window.setHidden = (is) => { hidden = is; document.dispatchEvent(new Event('visibilitychange')); };
    });
    return page;
  }

  shown() {
    return this.page.evaluate(() => shown);
  }

  post(body) {
    return this.page.evaluate((text) => { post(text); }, JSON.stringify(body));
  }

  /** cut hides the tab and shows it again, or cuts its line, in turns. */
  async cut(i) {
    if (i % 2) {
      site.drop();
      return;
    }
    // In one task the package would take its own abort for a cut line, and come back twice.
    await this.page.evaluate(() => { setHidden(true); });
    await this.page.evaluate(() => { setHidden(false); });
  }

  /** hear has the agent say all it has, a word at a time, with a cut after each. */
  async hear(calls) {
    await until('the agent is called', () => agent.calls.length === calls).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify(await this.shown())}; ${this.trouble}`);
    });
    let text = (await this.shown()).text;
    for (let i = 0, frame = agent.next(); frame; frame = agent.next(), i += 1) {
      text += frame[1].text ?? '';
      await until(`${frame[0]} is shown`, async () => (await this.shown()).text === text).catch(async (error) => {
        throw new Error(`${error.message}: ${JSON.stringify(await this.shown())}; ${this.trouble}`);
      });
      if (frame[0] === 'delta') await this.cut(i);
    }
  }
}

const bodies = {
  'AG-UI 1.0, runId': [
    (threadId) => ({ threadId, runId: `${threadId}-1`, protocolVersion: '1.0', messages: [{ id: 'u1', role: 'user', content: 'hi' }] }),
    (threadId, id, option) => ({
      threadId, runId: `${threadId}-2`, protocolVersion: '1.0', messages: [{ id: 'u1', role: 'user', content: 'hi' }],
      resume: [{ interruptId: id, status: 'resolved', payload: { optionId: option } }],
    }),
  ],
  'AG-UI 0.x, no runId': [
    (threadId) => ({ threadId, messages: [{ id: 'u1', role: 'user', content: 'hi' }], tools: [], context: [], state: {}, forwardedProps: {} }),
    (threadId, id, option) => ({
      threadId, tools: [], context: [], state: {}, forwardedProps: {},
      messages: [{ id: 'u1', role: 'user', content: 'hi' }, { id: 't1', role: 'tool', toolCallId: id, content: JSON.stringify({ optionId: option }) }],
    }),
  ],
  'a page of TDesign': [
    (threadId) => ({ threadId, prompt: 'hi' }),
    (threadId, id, option) => ({ threadId, toolCallMessage: { toolCallId: id, result: JSON.stringify({ optionId: option }) } }),
  ],
};

let made = 0;

for (const [name, [prompt, answer]] of Object.entries(bodies)) {
  test(`${name}: cut ${cuts} times, asked once, and shown what is kept`, async () => {
    const threadId = `fes-${made += 1}`;
    const before = agent.calls.length;
    const page = await Page.open();
    await page.post(prompt(threadId));
    await page.hear(before + 1);
    await until('the question is shown', async () => (await page.shown()).ended === 1);
    const [{ id, args }] = (await page.shown()).asked;
    await page.post(answer(threadId, id, args.options[0].id));
    await page.hear(before + 2);
    await until('the answer has ended', async () => (await page.shown()).ended === 2);

    const shown = await page.shown();
    assert.equal(agent.calls.length, before + 2, 'the agent was called again');
    assert.equal(shown.text, [...words, ...words.map((w) => w.toUpperCase())].join(''));
    assert.equal(new Set(shown.ids).size, shown.ids.length, 'an event was shown twice');
    if (!name.includes('TDesign')) assert.deepEqual(shown.ids, shown.ids.map((_, i) => i + 1), 'an event is missing'); // a page is given less
    assert.ok(shown.requests > cuts, `${shown.requests} requests`);
    const messages = await (await fetch(`${program.url}/api/threads/${threadId}/messages?format=agui`)).json();
    assert.equal(messages.filter((m) => m.role === 'user').length, 1);
    assert.equal(messages.filter((m) => m.role === 'assistant').map((m) => m.content ?? '').join(''), shown.text);
    await page.context.close();
  });
}
