// The official OpenAI SDK for JavaScript, unmodified, with an agent's run token as its key. The upstream behind is
// test/models/upstream_test.go; a model's name picks what it does.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.MODELS_URL, apiKey: process.env.RUN_TOKEN, maxRetries: 0 });
const messages = [{ role: 'user', content: 'hi' }];

test('an answer, and what it used', async () => {
  const got = await client.chat.completions.create({ model: 'm-text', messages });
  assert.equal(got.choices[0].message.content, 'one two three four five');
  assert.equal(got.usage.total_tokens, 18);
  assert.ok(got._request_id);
});

test('a stream', async () => {
  let text = '';
  let chunks = 0;
  for await (const chunk of await client.chat.completions.create({ model: 'm-text', messages, stream: true })) {
    chunks += 1;
    assert.equal(chunk.choices.length, 1, 'a chunk that was not asked for');
    text += chunk.choices[0].delta.content ?? '';
  }
  assert.equal(text, 'one two three four five ');
  assert.equal(chunks, 7);
});

test('a stream with its usage', async () => {
  const stream = await client.chat.completions.create({ model: 'm-text', messages, stream: true, stream_options: { include_usage: true } });
  let usage;
  for await (const chunk of stream) usage = chunk.usage ?? usage;
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [11, 7]);
});

test('a tool call in a stream', async () => {
  const runner = client.chat.completions.stream({
    model: 'm-tool', messages, tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }],
  });
  const { tool_calls: calls } = (await runner.finalChatCompletion()).choices[0].message;
  assert.equal(calls[0].function.name, 'weather');
  assert.deepEqual(JSON.parse(calls[0].function.arguments), { city: 'Oslo' });
});

for (const [status, kind] of [[429, OpenAI.RateLimitError], [500, OpenAI.InternalServerError], [400, OpenAI.BadRequestError]]) {
  test(`the upstream answers ${status}`, async () => {
    await assert.rejects(client.chat.completions.create({ model: `m-${status}`, messages }), (error) => {
      assert.ok(error instanceof kind, String(error));
      assert.equal(error.status, status);
      assert.match(error.message, /failed on purpose/);
      return true;
    });
  });
}

test('a model that there is not', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'other', messages }), (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_unknown');
});

test('another key', async () => {
  const stranger = new OpenAI({ baseURL: process.env.MODELS_URL, apiKey: 'sk-nobody', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create({ model: 'm-text', messages }), OpenAI.AuthenticationError);
});

test('cut in mid-stream', async () => {
  let text = '';
  await assert.rejects(async () => {
    for await (const chunk of await client.chat.completions.create({ model: 'm-cut', messages, stream: true })) text += chunk.choices[0].delta.content ?? '';
  });
  assert.equal(text, 'one two three four five ');
});

test('abort', async () => {
  const stream = await client.chat.completions.create({ model: 'm-hangs', messages, stream: true });
  for await (const chunk of stream) if (chunk.choices[0].delta.content === 'five ') stream.controller.abort();
  assert.ok((await fetch(`${process.env.UPSTREAM_URL}/left`)).ok, 'the upstream was not left within a second');
});

test('embeddings, models, responses', async () => {
  const { data, usage } = await client.embeddings.create({ model: 'm-text', input: 'hi', encoding_format: 'float' });
  assert.deepEqual([data[0].embedding, usage.total_tokens], [[0.25, 0.5], 4]);
  assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['m-listed']);
  let text = '';
  for await (const event of await client.responses.create({ model: 'm-text', input: 'hi', stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  assert.equal(text, 'hello');
});
