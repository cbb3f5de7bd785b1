// An HTTP agent whose every frame the tests let through: the prompt names its part.

import http from 'node:http';

import { patience } from './program.mjs';

const question = (id, title) => ['ask', {
  id, kind: 'permission', title, tool: id, args: { id },
  options: [{ id: 'yes', label: 'Allow once', kind: 'allow_once' }, { id: 'no', label: 'Reject', kind: 'reject_once' }],
}];
const say = (text) => ['delta', { text }];
const done = (...pending) => ['done', { usage: {}, ...(pending.length && { pending }) }];

// What the story tells, a frame each: where the tests cut.
const story = (answer) => (answer ? [
  say(`You said ${answer.kind}. `),
  ['state_delta', { delta: [{ op: 'add', path: '/count', value: 9 }] }],
  say('The end.'),
  done(),
] : [
  ['thought', { text: 'Where to begin? ' }],
  say('Once '),
  say('upon '),
  ['tool_call', { id: 'look', name: 'look_up', args: { what: 'a time' } }],
  ['tool_result', { id: 'look', content: 'a time' }],
  ['state_snapshot', { snapshot: { count: 7 } }],
  say('a time. '),
  question('go_on', 'Go on with the story?'),
  done('go_on'),
]);

const answerTo = (body, id) => body.resume?.find((r) => r.id === id)?.payload;
const verdicts = (body) => body.resume.map((r) => `${r.id} ${r.payload?.kind ?? r.status}`).sort().join(', ');
const text = (content) => (typeof content === 'string' ? content : content.filter((p) => p.type === 'text').map((p) => p.text).join(''));
const pictures = (messages) => messages.flatMap((m) => (Array.isArray(m.content) ? m.content : [])).filter((p) => p.type !== 'text').length;

const parts = {
  say: (body, words) => [...words.map((w) => say(`${w} `)), done()],
  work: () => [say('Working. ')], // and never ends by itself
  ask: (body) => (body.resume?.length ? [say(`So: ${verdicts(body)}.`), done()] : [say('May I? '), question('mail', 'Send the mail?'), done('mail')]),
  asks: (body) => (body.resume?.length ? [say(`So: ${verdicts(body)}.`), done()]
    : [say('May I twice? '), question('mail', 'Send the mail?'), question('pay', 'Pay the bill?'), done('mail', 'pay')]),
  color: (body) => (body.resume?.length ? [say(`The page said ${JSON.stringify(answerTo(body, 'paint')?.content)}.`), done()]
    : [say('I color. '), ['call_client_tool', { id: 'paint', name: 'set_color', args: { color: 'rgb(1, 2, 3)' } }], done('paint')]),
  count: (body) => {
    const { count = 0 } = body.state ?? {};
    return [['state_delta', { delta: [{ op: 'add', path: '/count', value: count + 10 }] }], say(`It was ${count}.`), done()];
  },
  see: (body) => [say(`Pictures: ${pictures(body.messages)}.`), done()],
  story: (body) => story(answerTo(body, 'go_on')),
};

export class Agent {
  prompts = []; // of each call that is no continuation
  left = 0; // calls whose caller went away
  #gates = new Map();

  /** gate holds the part whose second word is id: nothing passes but what `let` lets through. */
  gate(id) {
    const gate = { open: 0, sent: -1, wake: () => {}, waits: [] };
    gate.let = (n = Infinity) => {
      gate.open += n;
      gate.wake();
    };
    /** at waits until the agent was called and sent n frames. */
    gate.at = (n) => new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the agent has sent ${gate.sent} frames of ${n} (-1: it was not called)`)), patience);
      gate.waits.push([n, () => {
        clearTimeout(late);
        resolve();
      }]);
      gate.check();
    });
    gate.check = () => { gate.waits = gate.waits.filter(([n, resolve]) => gate.sent < n || resolve()); };
    this.#gates.set(id, gate);
    return gate;
  }

  async start() {
    this.server = http.createServer((req, res) => this.#invoke(req, res));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async #invoke(req, res) {
    if (req.method !== 'POST') return res.end(); // Aqueduct looks whether the agent is well
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    const prompt = text((body.messages.findLast((m) => m.role === 'user') ?? body.input_message).content);
    const [name, ...words] = prompt.split(' ');
    if (!body.resume?.length) this.prompts.push(prompt);
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.flushHeaders();
    let gone = false;
    const gate = this.#gates.get(words[0]);
    res.on('close', () => {
      gone = true;
      if (!res.writableFinished) this.left += 1;
      gate?.wake();
    });
    if (gate?.sent === -1) {
      gate.sent = 0;
      gate.check();
    }
    const frames = (parts[name] ?? parts.say)(body, words);
    for (const [event, data] of frames) {
      while (gate && gate.open === 0 && !gone) await new Promise((resolve) => { gate.wake = resolve; });
      if (gone) return undefined;
      res.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
      if (gate) {
        gate.open -= 1;
        gate.sent += 1;
        gate.check();
      }
    }
    return name === 'work' ? undefined : res.end();
  }

  stop() {
    this.server.close();
    this.server.closeAllConnections();
  }
}
