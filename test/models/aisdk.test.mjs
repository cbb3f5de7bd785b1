// The Vercel AI SDK with its openai-compatible provider, unmodified.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const provider = createOpenAICompatible({ name: 'aqueduct', baseURL: process.env.MODELS_URL, apiKey: process.env.RUN_TOKEN, includeUsage: true });
const prompt = 'hi';

test('an answer, and what it used', async () => {
  const { text, usage } = await generateText({ model: provider('m-text'), prompt });
  assert.equal(text, 'one two three four five');
  assert.deepEqual([usage.inputTokens, usage.outputTokens], [11, 7]);
});

test('a stream', async () => {
  const result = streamText({ model: provider('m-text'), prompt });
  let text = '';
  for await (const part of result.textStream) text += part;
  assert.equal(text, 'one two three four five ');
  assert.equal((await result.usage).outputTokens, 7);
});

test('a tool that the agent runs', async () => {
  const asked = [];
  const result = streamText({
    model: provider('m-tool'), prompt, stopWhen: stepCountIs(1),
    tools: { weather: tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => asked.push(city) }) },
  });
  await result.consumeStream();
  assert.deepEqual(asked, ['Oslo']);
});

for (const status of [429, 500]) {
  test(`the upstream answers ${status}`, async () => {
    await assert.rejects(generateText({ model: provider(`m-${status}`), prompt, maxRetries: 0 }), (error) => error.statusCode === status && /failed on purpose/.test(error.message));
  });
}

test('cut in mid-stream', async () => {
  let text = '';
  const result = streamText({ model: provider('m-cut'), prompt, maxRetries: 0, onError: () => {} });
  await assert.rejects(async () => {
    for await (const part of result.textStream) text += part;
  });
  assert.equal(text, 'one two three four five ');
});

test('abort', async () => {
  const controller = new AbortController();
  const result = streamText({ model: provider('m-hangs'), prompt, abortSignal: controller.signal, onError: () => {} });
  for await (const part of result.textStream) if (part === 'five ') controller.abort();
  assert.ok((await fetch(`${process.env.UPSTREAM_URL}/left`)).ok, 'the upstream was not left within a second');
});

test('an embedding', async () => {
  const { embedding } = await embed({ model: provider.textEmbeddingModel('m-text'), value: 'hi' });
  assert.deepEqual(embedding, [0.25, 0.5]);
});
