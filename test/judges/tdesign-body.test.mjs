// The bodies TDesign Chat pages really send, by hand: no library repairs them on the way.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { base, cancelRun, getJSON, newId, post, until } from './lib/server.mjs';
import { frames, types } from './lib/stream.mjs';
import { fetch } from './lib/token.mjs';

/** Browser keeps cookies as a browser does, and sends what TDesign's fetch sends. */
class Browser {
  #cookies = new Map();

  async chat(body, headers = {}) {
    const cookie = Array.from(this.#cookies, ([k, v]) => `${k}=${v}`).join('; ');
    const response = await fetch(`${base}/api/agui/chat`, {
      method: 'POST',
      headers: { Accept: 'text/event-stream', 'Cache-Control': 'no-cache', 'Content-Type': 'application/json', ...(cookie && { Cookie: cookie }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...attributes] = line.split('; ');
      assert.ok(attributes.includes('HttpOnly') && attributes.includes('SameSite=Strict'), line);
      this.#cookies.set(...pair.split(/=(.*)/s, 2));
    }
    return response;
  }

  async say(body, headers) {
    return judge(await frames(await this.chat(body, headers)));
  }
}

/** judge checks what every stream to TDesign must keep to, and gives its events. */
function judge(list) {
  const events = list.map(({ event }) => event);
  const ofType = types(list);
  assert.equal(ofType[0], 'RUN_STARTED', ofType.join(' '));
  assert.ok(['RUN_FINISHED', 'RUN_ERROR'].includes(ofType.at(-1)), ofType.join(' '));
  for (const type of ofType) {
    assert.ok(!type.startsWith('REASONING') && !type.startsWith('SUBAGENT') && type !== 'MESSAGES_SNAPSHOT', `${type} is lost on TDesign`);
  }
  let thinking = false;
  for (const e of events) {
    if (e.type === 'THINKING_START') thinking = true;
    else if (e.type === 'THINKING_END') thinking = false;
    else assert.ok(!thinking || e.type.startsWith('THINKING_'), `${e.type} inside thoughts`);
    assert.notEqual(e.delta, '', 'an empty delta');
    if (e.type === 'TOOL_CALL_RESULT') {
      assert.ok(e.messageId, 'a result without a message id');
      JSON.parse(e.content);
    }
    if (e.type === 'STATE_DELTA') {
      assert.equal(new Set(e.delta.map((op) => op.path.split('/')[1])).size, 1, 'one key per delta');
    }
  }
  assert.ok(!thinking, 'thoughts left open');
  return events;
}

const text = (events) => events.filter((e) => e.type === 'TEXT_MESSAGE_CONTENT').map((e) => e.delta).join('');
const thoughts = (events) => events.filter((e) => e.type === 'THINKING_TEXT_MESSAGE_CONTENT').map((e) => e.delta).join('');

/** card is the last tool call shown, as a card's args. */
function card(events) {
  const start = events.findLast((e) => e.type === 'TOOL_CALL_START');
  const args = events.filter((e) => e.type === 'TOOL_CALL_ARGS' && e.toolCallId === start?.toolCallId);
  assert.equal(args.length, 1, 'arguments in one delta');
  return { id: start.toolCallId, name: start.toolCallName, args: JSON.parse(args[0].delta) };
}

const answerOf = (c, result) => ({ toolCallId: c.id, toolCallName: c.name, result: JSON.stringify(result) });
const finished = (events) => assert.equal(events.at(-1).type, 'RUN_FINISHED', JSON.stringify(events.at(-1)));

test('{prompt}: text, thoughts that show, and a thread kept by cookie', async () => {
  const b = new Browser();
  const first = await b.say({ uid: 'agent_uid', prompt: 'think' });
  finished(first);
  assert.match(thoughts(first), /^The question is short/);
  assert.equal(text(first), 'I thought about it first: forty-two.');
  const second = await b.say({ uid: 'agent_uid', prompt: 'tool' });
  assert.equal(second[0].threadId, first[0].threadId);
  finished(second);
});

test('every part reads well to TDesign', async () => {
  for (const part of ['text', 'think', 'tool', 'state', 'activity', 'step', 'flood 50', 'hello', 'client_tool']) {
    finished(await new Browser().say({ prompt: part }));
  }
});

test('threadId in the body decides', async () => {
  const threadId = newId('td');
  const a = await new Browser().say({ threadId, prompt: 'text' });
  const b = await new Browser().say({ threadId, prompt: 'text' });
  assert.equal(a[0].threadId, threadId);
  assert.equal(b[0].threadId, threadId);
  assert.notEqual(a[0].runId, b[0].runId);
});

for (const [how, body] of [
  ['{toolCallMessage}', (c, a) => ({ toolCallMessage: answerOf(c, a) })],
  ['{prompt:"", toolCallMessage}', (c, a) => ({ prompt: '', toolCallMessage: answerOf(c, a) })],
  ['{prompt, toolCallMessage} with the label as prompt', (c, a) => ({ prompt: 'Allow once', toolCallMessage: answerOf(c, a) })],
  ['toolCallMessage with the whole call', (c, a) => ({ uid: 'x', toolCallMessage: { eventType: 'TOOL_CALL_END', parentMessageId: 'm', args: JSON.stringify(c.args), ...answerOf(c, a) } })],
  ['toolCallMessage without name', (c, a) => ({ toolCallMessage: { toolCallId: c.id, result: JSON.stringify(a) } })],
  ['under forwardedProps', (c, a) => ({ prompt: '', forwardedProps: { toolCallMessage: answerOf(c, a) } })],
  ['result as an object', (c, a) => ({ toolCallMessage: { toolCallId: c.id, result: a } })],
]) {
  test(`answer: ${how}`, async () => {
    const b = new Browser();
    const asked = await b.say({ prompt: 'ask' });
    finished(asked);
    const c = card(asked);
    assert.equal(c.name, 'request_permission');
    assert.ok(c.args.options.every((o, i) => o.id.startsWith(`${c.id}:${i}:`)), JSON.stringify(c.args.options));
    const next = await b.say(body(c, { optionId: c.args.options[0].id }));
    finished(next);
    assert.match(text(next), /You allowed it/);
  });
}

for (const [how, result] of [
  ['{outcome}', (o) => ({ outcome: { outcome: 'selected', optionId: o.id } })],
  ['{choice}', (o) => ({ choice: o.id })],
  ['a bare string', (o) => o.id],
]) {
  test(`answer: the option as ${how}`, async () => {
    const b = new Browser();
    const c = card(await b.say({ prompt: 'ask' }));
    const next = await b.say({ toolCallMessage: answerOf(c, result(c.args.options[0])) });
    assert.match(text(next), /You allowed it/);
  });
}

test('an answer from a browser without the thread finds it by the call', async () => {
  const asked = card(await new Browser().say({ prompt: 'ask' }));
  const next = await new Browser().say({ toolCallMessage: answerOf(asked, { optionId: asked.args.options[2].id }) });
  finished(next);
  assert.match(text(next), /You said no/);
});

test('an answer without an id: the option names the question', async () => {
  const b = new Browser();
  const c = card(await b.say({ prompt: 'ask' }));
  const next = await b.say({ toolCallMessage: { result: JSON.stringify({ optionId: c.args.options[0].id }) } });
  finished(next);
  assert.match(text(next), /You allowed it/);
});

test('an answer that names neither may only reject', async () => {
  const b = new Browser();
  const c = card(await b.say({ prompt: 'ask' }));
  const allow = await b.say({ toolCallMessage: { result: '{"approved":true}' } });
  finished(allow);
  assert.doesNotMatch(text(allow), /You allowed it/);
  const reject = await b.say({ toolCallMessage: { result: '{"approved":false}' } });
  finished(reject);
  assert.match(text(reject), /You said no/, `card ${c.id}`);
});

test('a repeated answer has no second effect', async () => {
  const b = new Browser();
  const c = card(await b.say({ prompt: 'ask' }));
  const body = { toolCallMessage: answerOf(c, { optionId: c.args.options[0].id }) };
  const first = await b.say(body);
  assert.match(text(first), /You allowed it/);
  finished(await b.say({ ...body, prompt: '' }));
  const messages = await getJSON(`/api/threads/${first[0].threadId}/messages`);
  assert.equal(messages.filter((m) => /You allowed it/.test(m.content)).length, 1);
});

test('an answer for a call nobody waits on is a short, quiet Run', async () => {
  const b = new Browser();
  await b.say({ prompt: 'tool' });
  finished(await b.say({ toolCallMessage: { toolCallId: 'nobody', toolCallName: 'show_progress', result: '{"success":true}' } }));
});

test('two questions: one card at a time, and each answer is its own', async () => {
  const b = new Browser();
  const mail = card(await b.say({ prompt: 'asks' }));
  assert.equal(mail.args.tool, 'send_mail');
  const between = await b.say({ toolCallMessage: answerOf(mail, { optionId: mail.args.options[0].id }) });
  finished(between);
  const pay = card(between);
  assert.equal(pay.args.tool, 'pay_invoice');
  // The handler of TDesign's examples names the wrong card of two alike: that decides nothing. Without a card the option does.
  const wrong = { ...answerOf(pay, { optionId: pay.args.options[2].id }), toolCallId: mail.id };
  finished(await b.say({ toolCallMessage: wrong }));
  const left = await getJSON(`/api/approvals?status=PENDING&thread_id=${between[0].threadId}`);
  assert.equal(left.approvals.length, 1, 'the wrong card decided');
  const next = await b.say({ toolCallMessage: { ...wrong, toolCallId: undefined } });
  finished(next);
  assert.match(text(next), /took care of the mail.*left the invoice alone/);
});

test('two questions of an agent that talks on: the second card after the first answer', async () => {
  const cards = (events) => events.filter((e) => e.type === 'TOOL_CALL_START' && e.toolCallName === 'request_permission').length;
  const b = new Browser();
  const first = await b.say({ prompt: 'hold' });
  finished(first);
  assert.equal(cards(first), 1);
  const mail = card(first);
  assert.equal(mail.args.tool, 'send_mail');
  const { threadId } = first[0];
  assert.equal((await getJSON(`/api/approvals?status=PENDING&thread_id=${threadId}`)).approvals.length, 2, 'both are open');
  const between = await b.say({ toolCallMessage: answerOf(mail, { optionId: mail.args.options[0].id }) });
  finished(between);
  assert.equal(cards(between), 1);
  const pay = card(between);
  assert.equal(pay.args.tool, 'pay_invoice');
  const next = await b.say({ toolCallMessage: answerOf(pay, { optionId: pay.args.options[0].id }) });
  finished(next);
  assert.match(text(next), /took care of the mail.*took care of the invoice/);
  // What was said while the page waited for its person is in its history, in order and once.
  const said = (await getJSON(`/api/threads/${threadId}/messages`)).filter((m) => m.role === 'assistant').map((m) => m.content ?? '').join('');
  assert.ok(said.includes(Array.from({ length: 40 }, (_, i) => `w${i + 1} `).join('')), said);
});

test('an input is answered by its value', async () => {
  const b = new Browser();
  const asked = await b.say({ prompt: 'all' });
  const c = card(asked);
  assert.equal(c.name, 'collect_preferences');
  assert.deepEqual(c.args.options, ['经济型', '舒适型']);
  const next = await b.say({ toolCallMessage: answerOf(c, { choice: '舒适型' }) });
  assert.match(text(next), /根据您的偏好 舒适型/);
});

test('a prompt while a question is open: a sentence, and the card again', async () => {
  const b = new Browser();
  const c = card(await b.say({ prompt: 'ask' }));
  const again = await b.say({ prompt: 'text' });
  finished(again);
  assert.ok(text(again).length > 0);
  assert.equal(card(again).id, c.id);
  const next = await b.say({ toolCallMessage: answerOf(c, { optionId: c.args.options[0].id }) });
  assert.match(text(next), /You allowed it/);
});

test('a prompt while the agent works: a sentence, and nothing is harmed', { timeout: 30_000 }, async () => {
  const b = new Browser();
  const threadId = newId('td');
  const stream = await b.chat({ threadId, prompt: 'slow' });
  await until('it runs', async () => (await fetch(`${base}/api/threads/${threadId}`)).ok);
  const refused = await b.say({ threadId, prompt: 'text' });
  finished(refused);
  assert.ok(text(refused).length > 0);
  await cancelRun(stream.headers.get('x-run-id'));
  finished(judge(await frames(stream)));
});

test('nothing usable is told in the stream', async () => {
  for (const body of [undefined, {}, { prompt: '' }, { messageID: 'm' }]) {
    const list = await frames(await new Browser().chat(body));
    const last = list.at(-1).event;
    assert.equal(last.type, 'RUN_ERROR', JSON.stringify(body));
    assert.match(last.message, /onRequest/);
  }
});

test('the doubled content type of a page that sets its own is taken', async () => {
  const events = await new Browser().say({ prompt: 'text' }, { 'Content-Type': 'application/json, application/json' });
  finished(events);
});

test('a hand-made RunAgentInput without version gets thoughts it can show', async () => {
  const events = await new Browser().say({
    threadId: newId('td'), runId: newId('run'), state: {}, messages: [{ id: newId('u'), role: 'user', content: 'think' }], tools: [], context: [], forwardedProps: {},
  });
  assert.match(thoughts(events), /^The question is short/);
});

test('every result carries its call’s name, a question’s too', async () => {
  const b = new Browser();
  const first = await b.say({ prompt: 'all' });
  const second = await b.say({ toolCallMessage: answerOf(card(first), { choice: '舒适型' }) });
  const names = [...first, ...second].filter((e) => e.type === 'TOOL_CALL_RESULT').map((e) => e.toolCallName);
  assert.deepEqual(names, ['get_weather', 'collect_preferences']);
});

// RUN_ERROR would put its message in place of the bubble's first block, and leave every later
// answer of the page marked as failed.
test('an error in mid-answer ends in words, and keeps what was said', async () => {
  const b = new Browser();
  const events = await b.say({ prompt: 'error' });
  assert.match(text(events), /^This begins well.*The demo agent failed on purpose\.$/);
  finished(await b.say({ prompt: 'text' }));
});

test('two browsers with one uid never share a thread', async () => {
  const [a, b] = [new Browser(), new Browser()];
  const first = await a.say({ uid: 'agent_uid', prompt: 'text' });
  const second = await b.say({ uid: 'agent_uid', prompt: 'text' });
  assert.notEqual(first[0].threadId, second[0].threadId);
  const again = await a.say({ uid: 'agent_uid', prompt: 'text' });
  assert.equal(again[0].threadId, first[0].threadId);
});

test('history has the shape convertHistoryMessages takes', async () => {
  const b = new Browser();
  const threadId = newId('td');
  await b.say({ threadId, prompt: 'all' });
  await new Browser().say({ threadId: newId('other'), prompt: 'text' });
  const messages = await getJSON(`/api/threads/${threadId}/messages`);
  assert.equal(messages[0].role, 'user');
  assert.equal(messages[0].content, 'all');
  assert.ok(messages.every((m) => ['user', 'assistant', 'tool', 'activity'].includes(m.role)), messages.map((m) => m.role).join(' '));
  assert.match(messages.find((m) => m.reasoningContent)?.reasoningContent ?? '', /The traveller/);
  const call = messages.flatMap((m) => m.toolCalls ?? []).find((c) => c.function.name === 'get_weather');
  assert.deepEqual(JSON.parse(call.function.arguments), { city: '北京' });
  assert.equal(messages.find((m) => m.role === 'tool' && m.toolCallId === call.id)?.content, '{"temp":25}');
  assert.deepEqual(messages.find((m) => m.role === 'activity')?.content.data, [{ price: 100 }]);
});

test('the page may not be asked from another origin', async () => {
  const response = await post('/api/agui/chat', { prompt: 'text' }, { headers: { Origin: 'https://elsewhere.example' } });
  assert.equal(response.status, 403);
});
