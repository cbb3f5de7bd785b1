// Agents that speak AG-UI as frameworks do that npm has not: their streams are written here after the source of each, which is
// named with its version. A model like that of the other agents decides what they say; GET /NAME/seen?talk=T is what an agent
// was sent in a conversation.

import { createServer } from 'node:http';
import { flat, text } from './scripted.mjs';
import { baseURL, listen } from './serve.mjs';
import { styles } from './styles.mjs';

const seen = new Map();
const ids = new Map();

/** A conversation in the form of the model. */
const forModel = (messages) => messages.flatMap(({ role, content, toolCalls, toolCallId }) => {
  switch (role) {
    case 'assistant':
      return [{ role, content: content || null, ...(toolCalls?.length && { tool_calls: toolCalls.map(({ id, type, function: f }) => ({ id, type, function: { name: f.name, arguments: f.arguments } })) }) }];
    case 'tool': return [{ role, content: flat(content), tool_call_id: toolCallId }];
    case 'reasoning': case 'activity': return [];
    default: return [{ role, content: flat(content) }];
  }
});

const declared = (name, parameters = { type: 'object', properties: {} }) => ({ type: 'function', function: { name, parameters } });

/** run is one run of an agent in a framework's style: the model is asked until it has no call that the agent can run itself. */
async function run(style, input, write) {
  const talk = input.messages.map((m) => /~([\w-]+)/.exec(flat(m.content))?.[1]).findLast(Boolean) ?? input.threadId;
  if (!seen.has(talk)) seen.set(talk, []);
  seen.get(talk).push(input);
  const r = {
    input, state: { ...input.state }, added: [], write,
    names: { threadId: input.threadId, runId: input.runId },
    id: (kind) => {
      ids.set(talk, (ids.get(talk) ?? 0) + 1);
      return `${kind}-${ids.get(talk)}`;
    },
    send: (type, members) => write({ type, ...members }),
  };
  const own = style.own === false ? [] : ['weather', 'now', 'count', 'send_email'];
  const execute = ({ function: { name, arguments: args } }) => {
    switch (name) {
      case 'weather': return { city: JSON.parse(args).city, degrees: 7 };
      case 'now': return { now: 'noon' };
    }
    r.state = { ...r.state, count: (r.state.count ?? 0) + 2 };
    return { counted: true };
  };
  style.begin(r);
  const asked = [...input.messages].reverse().flatMap((m) => m.toolCalls ?? []).find((c) => c.function.name === 'send_email');
  const answer = asked && style.answer(r, asked);
  if (answer) {
    const to = answer.editedArgs?.to ?? JSON.parse(asked.function.arguments).to;
    r.added.push(style.result(r, asked, answer.approved ? { sent: to } : { declined: to, ...(answer.reason && { reason: answer.reason }) }));
  }
  for (let step = 0; step < 5; step++) {
    const response = await fetch(`${baseURL}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        messages: forModel(style.history(r)),
        tools: [...own.map((name) => declared(name)), ...(input.tools ?? []).map((t) => declared(t.name, t.parameters))],
      }),
    });
    if (!response.ok) {
      r.send('RUN_ERROR', { message: (await response.json()).error.message, code: 'model_refused' });
      return;
    }
    const { message } = (await response.json()).choices[0];
    const calls = (message.tool_calls ?? []).map(({ id, type, function: f }) => ({ id, type, function: { name: f.name, arguments: f.arguments || '{}' } }));
    r.added.push(style.step(r, message.content, calls));
    const mine = calls.filter((c) => own.includes(c.function.name));
    const email = mine.find((c) => c.function.name === 'send_email');
    for (const call of mine.filter((c) => c !== email)) r.added.push(style.result(r, call, execute(call)));
    if (email || mine.length === 0 || mine.length < calls.length) {
      style.end(r, email);
      return;
    }
  }
  throw new Error('the model calls without an end');
}

listen(createServer(async (req, res) => {
  const url = new URL(req.url, 'http://localhost');
  const [, name, path] = url.pathname.split('/');
  if (path === 'seen') return void res.end(JSON.stringify(seen.get(url.searchParams.get('talk')) ?? []));
  if (req.method !== 'POST') return void res.writeHead(405).end();
  const input = JSON.parse(await text(req));
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  await run(styles[name], input, (event) => res.write(`data: ${JSON.stringify(event)}\n\n`));
  res.end();
}));
