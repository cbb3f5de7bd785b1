// A real agent in the chat: opencode, with the scripted model of script_test.go behind it and
// the official AG-UI client in front. What counts is what really happened: files on the disk,
// what the model was told, what is kept.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from '../judges/lib/clients.mjs';
import { atRest, base, cancelRun, decide, getJSON, lastRun, openApprovals, post, until } from '../judges/lib/server.mjs';
import { fetch } from '../judges/lib/token.mjs';

const [client] = clients; // 1.0.0
const file = (name) => join(process.env.WORKSPACE, name);
const limit = { timeout: 180_000 };

before(linked);
afterEach(noComplaints);

// Each thread has an agent process of its own, which takes seconds of both cores to start: what leaves a thread at rest
// shares these.
let day = new Talk(client);
let shell;
let survivor; // the id of a thread whose agent was killed

/** options are those of the newest question, by kind. */
function options(talk) {
  const { options: list } = JSON.parse(talk.calls('request_permission').at(-1).function.arguments);
  return Object.fromEntries(list.map((o) => [o.kind, { optionId: o.id }]));
}

/** told is what people said in the newest conversation the model saw. */
async function told() {
  const requests = await (await fetch(`${process.env.MODEL_URL}/requests`)).json();
  return requests.at(-1).messages.filter((m) => m.role === 'user').map((m) => m.content.trim());
}

/** words are the texts of a thread as it is kept, each with who said it. */
async function words(threadId) {
  const messages = await getJSON(`/api/threads/${threadId}/messages?format=agui`);
  assert.equal(new Set(messages.map((m) => m.id)).size, messages.length, 'an id twice');
  return messages.filter((m) => ['user', 'assistant'].includes(m.role) && m.content).map((m) => `${m.role}: ${m.content}`);
}

test('text and thoughts', limit, async () => {
  const talk = day;
  const said = await talk.say('say hello to the whole world');
  finishedWell(said);
  assert.equal(talk.lastText, 'hello to the whole world');
  const thought = await talk.say('think about rivers');
  finishedWell(thought);
  assert.equal(thought.of('REASONING_MESSAGE_CONTENT').map((e) => e.delta).join(''), 'about rivers');
  assert.equal(talk.lastText, 'thought');
  assert.deepEqual(await words(talk.threadId), [
    'user: say hello to the whole world', 'assistant: hello to the whole world', 'user: think about rivers', 'assistant: thought',
  ]);
});

test('a file is written after the interrupt is answered with allow, and not before', limit, async () => {
  const talk = day;
  const [question] = asked(await talk.say('write allowed.txt with some words'), 1);
  assert.ok(!existsSync(file('allowed.txt')), 'written before anybody allowed it');
  const run = await talk.answer([question.id, options(talk).allow_once]);
  finishedWell(run);
  assert.equal(readFileSync(file('allowed.txt'), 'utf8'), 'some words');
  assert.equal(talk.lastText, 'done');
  const write = talk.agent.messages.flatMap((m) => m.toolCalls ?? []).find((c) => c.function.name !== 'request_permission');
  assert.deepEqual(JSON.parse(write.function.arguments), { filePath: 'allowed.txt', content: 'some words' });
  assert.match(talk.result(write.id), /Wrote file successfully/);
});

test('a refused file is not written, and the chat says so', limit, async () => {
  const talk = day;
  const [question] = asked(await talk.say('write refused.txt with some words'), 1);
  const run = await talk.answer([question.id, options(talk).reject_once]);
  finishedWell(run);
  assert.ok(!existsSync(file('refused.txt')), 'written, although refused');
  assert.ok(run.of('TOOL_CALL_RESULT').some((e) => /rejected permission/.test(e.content)), JSON.stringify(run.events));
  finishedWell(await talk.say('say still here'));
  assert.equal(talk.lastText, 'still here');
});

test('cancel while it talks', limit, async () => {
  const talk = day;
  let runId;
  const run = await talk.say('slow', {
    onEvent: (e) => {
      if (e.type === 'RUN_STARTED') runId = e.runId;
      if (e.type === 'TEXT_MESSAGE_CONTENT' && runId) {
        cancelRun(runId);
        runId = undefined;
      }
    },
  });
  assert.equal(run.last.type, 'RUN_FINISHED', JSON.stringify(run.last));
  assert.match(talk.lastText, /^1 /);
  await atRest(talk.threadId);
  finishedWell(await talk.say('say still here'));
  assert.equal(talk.lastText, 'still here');
});

test('an agent that was closed is started again for the next prompt, and knows the thread', limit, async () => {
  const talk = day;
  const before = await words(talk.threadId);
  const response = await post(`/api/threads/${talk.threadId}/control`, { action: 'close' });
  assert.equal(response.status, 204, await response.text());
  await until('the agent ends', () => agents() === 0);
  finishedWell(await talk.say('recall'));
  assert.match(talk.lastText, /^You said: say hello to the whole world; think about rivers; .*slow; say still here$/);
  assert.deepEqual(await words(talk.threadId), [...before, 'user: recall', `assistant: ${talk.lastText}`]);
});

test('a command runs after the tool message of a frontend that has the tool', limit, async () => {
  const talk = new Talk(client, { tools: [{ name: 'request_permission', description: 'Ask the person', parameters: { type: 'object', properties: {} } }] });
  shell = talk;
  finishedWell(await talk.say('run echo from the shell > shell.txt'));
  assert.ok(!existsSync(file('shell.txt')));
  const [call] = talk.calls('request_permission');
  finishedWell(await talk.answerAsTool(call.id, options(talk).allow_once));
  assert.equal(readFileSync(file('shell.txt'), 'utf8'), 'from the shell\n');
  assert.equal(talk.lastText, 'done');
});

test('the agent of a deleted thread ends', limit, async () => {
  const all = agents();
  const response = await fetch(`${base}/api/threads/${shell.threadId}`, { method: 'DELETE' });
  assert.equal(response.status, 204, await response.text());
  await until('the agent ends', () => agents() < all);
});

test('a file is written after an answer over REST, while nobody listens', limit, async () => {
  const talk = day;
  const [question] = asked(await talk.say('write rest.txt with some words'), 1);
  assert.equal((await decide(question.id, { approved: true })).status, 200);
  await atRest(talk.threadId);
  assert.equal(readFileSync(file('rest.txt'), 'utf8'), 'some words');
  const back = new Talk(client, { threadId: talk.threadId });
  finishedWell(await back.join());
  assert.equal(back.lastText, 'done');
  day = back; // the page that was told nothing knows of the question still
});

test('cancel while a question is open', limit, async () => {
  const talk = day;
  const run = await talk.say('write cancelled.txt with some words');
  asked(run, 1);
  await cancelRun(run.id);
  await atRest(talk.threadId);
  assert.deepEqual(await openApprovals(talk.threadId), []);
  assert.equal((await lastRun(talk.threadId)).status, 'CANCELLED');
  assert.ok(!existsSync(file('cancelled.txt')), 'written, although cancelled');
  const back = new Talk(client, { threadId: talk.threadId });
  assert.deepEqual((await back.join()).of('RUN_FINISHED').map((e) => e.outcome), [{ type: 'cancelled' }]);
  finishedWell(await back.say('say still here'));
  assert.equal(back.lastText, 'still here');
  assert.ok(!existsSync(file('cancelled.txt')), 'written later');
  day = back;
});

test('two threads do not hear each other', limit, async () => {
  const [one, two] = [day, new Talk(client)];
  const [question] = asked(await one.say('write first.txt with some words'), 1);
  finishedWell(await two.say('say I am the second'));
  finishedWell(await two.say('recall'));
  assert.equal(two.lastText, 'You said: say I am the second');
  finishedWell(await one.answer([question.id, options(one).allow_once]));
  assert.equal(readFileSync(file('first.txt'), 'utf8'), 'some words');
});

test('a thread is one session of the agent, also after the server and the agent were killed', limit, async () => {
  const talk = new Talk(client);
  finishedWell(await talk.say('say hello again'));
  finishedWell(await talk.say('recall'));
  assert.equal(talk.lastText, 'You said: say hello again');
  assert.deepEqual(await told(), ['say hello again', 'recall']);
  const before = await words(talk.threadId);

  await restart();
  survivor = talk.threadId;
  const back = new Talk(client, { threadId: talk.threadId });
  finishedWell(await back.join());
  finishedWell(await back.say('recall'));
  assert.equal(back.lastText, 'You said: say hello again; recall');
  assert.deepEqual(await told(), ['say hello again', 'recall', 'recall']);
  assert.deepEqual(await words(talk.threadId), [...before, 'user: recall', 'assistant: You said: say hello again; recall']);

  const late = new Talk(client, { threadId: talk.threadId });
  finishedWell(await late.join());
  assert.deepEqual(late.picture.messages, back.picture.messages);
});

test('killed with a question open: it is taken back, since the agent is gone', limit, async () => {
  const talk = new Talk(client, { threadId: survivor });
  const [question] = asked(await talk.say('write orphan.txt with some words'), 1);
  await restart();
  await atRest(talk.threadId);
  assert.equal((await lastRun(talk.threadId)).status, 'FAILED');
  assert.equal((await decide(question.id, { decision: 'approve' })).status, 409, 'nobody is there to be told');
  const back = new Talk(client, { threadId: talk.threadId });
  assert.deepEqual((await back.join()).of('RUN_ERROR').map((e) => e.code), ['agent_proxy_restarted']);
  finishedWell(await back.say('say still here'));
  assert.equal(back.lastText, 'still here');
  assert.ok(!existsSync(file('orphan.txt')), 'the agent that asked is dead');
});

/** agents counts the processes that work in the agents' folder. */
function agents() {
  return readdirSync('/proc').filter((pid) => /^[0-9]+$/.test(pid)).filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === process.env.WORKSPACE;
    } catch {
      return false; // it has ended, or is not ours
    }
  }).length;
}

/** linked waits for the proxy inside the program, which connects once the program listens. */
function linked() {
  return until('the agent is there', () => fetch(`${base}/api/proxies`)
    .then(async (r) => (await r.json()).proxies.some((p) => p.linked), () => false));
}

/** restart kills the server with -9, and with it the agent, and starts it on what is left. */
async function restart() {
  const response = await fetch(`${process.env.CONTROL_URL}/restart`, { method: 'POST' });
  assert.equal(response.status, 200, await response.text());
  await until('the agents are dead too', () => agents() === 0);
  await linked();
}
