// An agent made with TanStack AI as its documentation describes: it speaks AG-UI, has a tool of its own, a tool that needs
// approval, and takes the tools of the page. It prints its port, and ends with its standard input.

import { createServer } from 'node:http';
import { chat, chatParamsFromRequestBody, mergeAgentTools, toServerSentEventsResponse, toolDefinition } from '@tanstack/ai';
import { createOpenaiChatCompletions } from '@tanstack/ai-openai';
import { z } from 'zod';
import { text } from './scripted.mjs';
import { baseURL, listen } from './serve.mjs';

const weather = toolDefinition({
  name: 'weather', description: 'The weather', inputSchema: z.object({ city: z.string() }),
}).server(async ({ city }) => ({ city, degrees: 7 }));

const now = toolDefinition({ name: 'now', description: 'The time', inputSchema: z.object({}) }).server(async () => ({ now: 'noon' }));
const sent = [];
const sendEmail = toolDefinition({
  name: 'send_email', description: 'Sends an email', inputSchema: z.object({ to: z.string() }), needsApproval: true,
}).server(async ({ to }) => {
  sent.push(to);
  return { sent: to };
});

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
    adapter: createOpenaiChatCompletions('gpt-4o', 'key', { baseURL, maxRetries: 0 }),
    messages, threadId, runId, parentRunId, resume, abortController,
    tools: mergeAgentTools([weather, now, sendEmail], tools),
  }), { abortController });
  res.writeHead(answer.status, Object.fromEntries(answer.headers));
  for await (const chunk of answer.body) res.write(chunk);
  res.end();
});

listen(agent);
