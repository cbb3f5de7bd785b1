// What persons do with an agent, each at the agent's own endpoint and through Aqueduct. The model behind the agent refuses what
// OpenAI refuses. What is answered at the agent's own endpoint is answered through Aqueduct, the model sees the same messages
// with the same ids of calls, and the client has the same transcript but for ids and cards.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { HttpAgent as HttpAgent0 } from 'agui0';
import { Person, plain } from './person.mjs';

export const scenarios = {
  'chat': async (p) => {
    for (const word of ['hello', 'again', 'bye']) await p.say(word);
  },
  'a tool, twice': async (p) => {
    for (const word of ['weather', 'weather', 'bye']) await p.say(word);
  },
  'two tools at once': async (p) => {
    for (const word of ['two', 'bye', 'two', 'bye']) await p.say(word);
  },
  'one tool after the other': async (p) => {
    for (const word of ['chain', 'bye']) await p.say(word);
  },
  'a text and a call in one message': async (p) => {
    for (const word of ['explain', 'bye']) await p.say(word);
  },
  'a call without arguments': async (p) => {
    for (const word of ['empty', 'bye']) await p.say(word);
  },
  'ids of calls that begin anew in each turn': async (p) => {
    for (const word of ['zero', 'zero', 'bye']) await p.say(word);
  },
  'a tool of the page': async (p) => {
    await p.say('page');
    await p.shows();
    for (const word of ['weather', 'bye']) await p.say(word);
  },
  'a tool of the page, twice': async (p) => {
    for (const word of ['page', 'page']) {
      await p.say(word);
      await p.shows();
    }
    await p.say('bye');
  },
  'two tools of the page at once': async (p) => {
    await p.say('pages');
    await p.shows();
    await p.say('bye');
  },
  'a tool of the agent and one of the page in one turn': async (p) => {
    await p.say('both');
    await p.shows();
    await p.say('bye');
  },
  'a tool of the page that the person passes over': async (p) => {
    for (const word of ['page', 'hello', 'bye']) await p.say(word);
  },
  'an interrupt, approved': async (p) => {
    await p.say('email');
    await p.decides({ approved: true });
    await p.say('bye');
  },
  'an interrupt, declined in CopilotKit before 1.0': async (p) => {
    await p.say('email');
    await p.decides({ approved: false });
    await p.say('bye');
  },
  'stop, and go on': async (p) => {
    await p.say('hello');
    await p.stops();
    for (const word of ['again', 'weather', 'bye']) await p.say(word);
  },
  'regenerate': async (p) => {
    for (const word of ['hello', 'weather']) await p.say(word);
    for (let i = 0; i < 2; i++) {
      p.back();
      await p.run();
    }
    await p.say('bye');
  },
  'edit': async (p) => {
    for (const word of ['hello', 'weather']) await p.say(word);
    p.back('and the message');
    for (const word of ['two', 'bye']) await p.say(word);
  },
  'a history that the client brings': async (p) => {
    p.agent.setMessages([
      { id: `h1-${p.talk}`, role: 'assistant', content: 'Welcome.' },
      { id: `h2-${p.talk}`, role: 'user', content: `before ~${p.talk}` },
      { id: `h3-${p.talk}`, role: 'assistant', content: 'It was so.' },
    ]);
    for (const word of ['hello', 'weather', 'bye']) await p.say(word);
  },
  'the state': async (p) => {
    await p.say('count');
    p.agent.setState({ ...p.agent.state, count: 40 });
    for (const word of ['count', 'bye']) await p.say(word);
  },
  'reload, and go on': async (p) => {
    for (const word of ['two', 'hello']) await p.say(word);
    await p.reloads();
    await p.say('weather');
    await p.reloads();
    await p.say('bye');
  },
};

const { AQUEDUCT_URL, AGENT_URL, AGENT } = process.env;

/** The two roads to the agent. */
export const roads = {
  direct: { url: `${AGENT_URL}/` },
  through: { url: `${AQUEDUCT_URL}/api/agui/chat?agent=${AGENT}`, connect: `${AQUEDUCT_URL}/api/agui/connect?agent=${AGENT}` },
};

/**
 * What is answered through Aqueduct and compares with nothing: a call without a result, which many providers refuse, has one that
 * says so; and a client at the agent's own endpoint takes two calls of one id for one.
 */
const alone = ['a tool of the page that the person passes over', 'ids of calls that begin anew in each turn'];

/** The newest user message of each request to the model. */
const asked = (seen) => seen.map(({ messages }) => flat(messages.findLast((m) => m.role === 'user').content));
const flat = (content) => (typeof content === 'string' ? content : plain(content.map((part) => part.text ?? '').join('')));

/**
 * compare has an official client go through the scenarios. cannot names those that the framework fails at its own endpoint,
 * with the failure, and loose those in which it sees other messages: both are answered through Aqueduct. without are those that
 * mean nothing for it; person is how its own client differs.
 */
export function compare({ cannot = {}, loose = [], without = [], all = scenarios, person = {} } = {}) {
  describe('direct and through Aqueduct', { concurrency: 6 }, () => {
    for (const [name, play] of Object.entries(all).filter(([name]) => !without.includes(name))) {
      test(name, async () => {
        const talk = randomUUID().slice(0, 8);
        const [direct, through] = Object.entries(roads).map(([road, where]) => new Person({
          ...person, ...where, talk: `${road}-${talk}`, ...(name.includes('before 1.0') && { Client: HttpAgent0, copilotkit: true }),
        }));
        await Promise.all([play(direct), play(through)]);
        if (cannot[name] || [...alone, ...loose].includes(name)) {
          if (cannot[name]) assert.match(direct.prompts.join('\n'), cannot[name], 'the framework can do it');
          assert.deepEqual(through.prompts.filter((p) => p.startsWith('refused')), [], 'a prompt is refused');
          assert.deepEqual(new Set(asked(await through.seen())), new Set(through.words), 'a prompt does not reach the model');
          return;
        }
        assert.deepEqual(direct.prompts.filter((p) => p.startsWith('refused')), [], 'the framework refuses by itself');
        assert.deepEqual(through.prompts, direct.prompts);
        if (process.env.STYLE) assert.deepEqual(await through.sent(), await direct.sent(), 'the agent is sent something else');
        assert.deepEqual(await through.seen(), await direct.seen(), 'the model sees other messages');
        assert.deepEqual(through.transcript, direct.transcript, 'the client has another transcript');
        assert.deepEqual(through.state, direct.state, 'the client has another state');
        assert.deepEqual(through.complaints.filter((c) => !direct.complaints.includes(c)), [], 'the client complains');
      });
    }
  });
}
