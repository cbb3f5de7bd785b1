// An agent made with TanStack AI as its documentation describes: it speaks AG-UI, has a tool of its own, a tool that needs
// approval, and takes the tools of the page. The model behind it is scripted: the newest message of the user picks what it
// does. It prints its port, and ends with its standard input.

import { createServer } from 'node:http';
import { chat, chatParamsFromRequestBody, mergeAgentTools, toServerSentEventsResponse, toolDefinition } from '@tanstack/ai';
import { createOpenaiChatCompletions } from '@tanstack/ai-openai';
import { z } from 'zod';

const weather = toolDefinition({
  name: 'weather', description: 'The weather', inputSchema: z.object({ city: z.string() }),
}).server(async ({ city }) => ({ city, degrees: 7 }));

const sent = [];
const sendEmail = toolDefinition({
  name: 'send_email', description: 'Sends an email', inputSchema: z.object({ to: z.string() }), needsApproval: true,
}).server(async ({ to }) => {
  sent.push(to);
  return { sent: to };
});

/** Calls of tools that the model makes, by the word of the user that asks for them. */
const calls = {
  weather: ['weather', '{"city":"Oslo"}'],
  email: ['send_email', '{"to":"ada@example.org"}'],
  page: ['show_map', '{"lat":52}'],
};

const model = createServer(async (req, res) => {
  const { messages } = JSON.parse(await text(req));
  res.setHeader('content-type', 'text/event-stream');
  const send = (delta, finish = null) => res.write(`data: ${JSON.stringify({
    id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`);
  const asked = messages.findLastIndex((m) => m.role === 'user');
  const word = flat(messages[asked].content).split(' ')[0];
  const results = messages.slice(asked).filter((m) => m.role === 'tool');
  if (word === 'broken') {
    res.destroy();
    return;
  }
  if (calls[word] && results.length === 0) {
    const [name, args] = calls[word];
    // Its ids begin anew in each turn, as those of some providers do.
    send({ role: 'assistant', content: null, tool_calls: [{ index: 0, id: 'call_0', type: 'function', function: { name, arguments: '' } }] });
    for (const piece of args.match(/.{1,5}/g)) send({ tool_calls: [{ index: 0, function: { arguments: piece } }] });
    send({}, 'tool_calls');
  } else {
    send({ role: 'assistant', content: '' });
    const said = results.length ? `The tool gave ${flat(results.at(-1).content)}` : `You wrote: ${messages.filter((m) => m.role === 'user').map((m) => flat(m.content)).join(', ')}`;
    for (const piece of said.match(/.{1,4}/gs)) send({ content: piece });
    send({}, 'stop');
  }
  res.end('data: [DONE]\n\n');
});

const flat = (content) => (typeof content === 'string' ? content : content.map((part) => part.text ?? '').join(''));

async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const agent = createServer(async (req, res) => {
  if (req.url === '/sent') {
    res.end(JSON.stringify(sent));
    return;
  }
  if (req.method !== 'POST') {
    res.writeHead(405).end();
    return;
  }
  let params;
  try {
    params = await chatParamsFromRequestBody(JSON.parse(await text(req)));
  } catch (error) {
    res.writeHead(400).end(String(error));
    return;
  }
  const { messages, threadId, runId, parentRunId, resume, tools } = params;
  const abortController = new AbortController();
  res.on('close', () => abortController.abort());
  const answer = toServerSentEventsResponse(chat({
    adapter: createOpenaiChatCompletions('gpt-4o', 'key', { baseURL: `http://127.0.0.1:${model.address().port}/v1`, maxRetries: 0 }),
    messages, threadId, runId, parentRunId, resume, abortController,
    tools: mergeAgentTools([weather, sendEmail], tools),
  }), { abortController });
  res.writeHead(answer.status, Object.fromEntries(answer.headers));
  for await (const chunk of answer.body) res.write(chunk);
  res.end();
});

model.listen(0, '127.0.0.1', () => agent.listen(0, '127.0.0.1', () => console.log(`listening on ${agent.address().port}`)));
process.stdin.on('end', () => process.exit(0)).resume();
