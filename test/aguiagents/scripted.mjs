// What the models behind the agents of this directory do: the first word of the newest message of the user picks a tool, which
// is called once; any other is answered with what the user has written so far.

import { createServer } from 'node:http';

/** Calls of tools that a model makes, by the word of the user that asks for them. */
export const calls = {
  weather: ['weather', '{"city":"Oslo"}'],
  email: ['send_email', '{"to":"ada@example.org"}'],
  page: ['show_map', '{"lat":52}'],
};

/** The text of a content, whatever form it has. */
export const flat = (content) => (typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''));

/**
 * What a model says to a conversation of {role, content}: {call: [name, arguments]} or {text}.
 * called are further calls that it makes.
 */
export function says(messages, called = {}) {
  const asked = messages.findLastIndex((m) => m.role === 'user');
  const word = flat(messages[asked].content).split(' ')[0];
  const results = messages.slice(asked).filter((m) => m.role === 'tool');
  const call = { ...calls, ...called }[word];
  if (call && results.length === 0) return { word, call };
  if (results.length) return { word, text: `The tool gave ${flat(results.at(-1).content)}` };
  return { word, text: `You wrote: ${messages.filter((m) => m.role === 'user').map((m) => flat(m.content)).join(', ')}` };
}

/** A text in pieces of at most n characters, as a model writes it. */
export const pieces = (text, n) => text.match(new RegExp(`.{1,${n}}`, 'gs')) ?? [];

/** The body of a request. */
export async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/**
 * An upstream of OpenAI's chat completions; its address is the base URL of a model. "broken" breaks the connection. The ids
 * of its calls begin anew in each turn, as those of some providers do, unless they are counted.
 */
export async function upstream(called = {}, counted = false) {
  let count = 0;
  const server = createServer(async (req, res) => {
    const { word, call, text: said } = says(JSON.parse(await text(req)).messages, called);
    res.setHeader('content-type', 'text/event-stream');
    const send = (delta, finish = null) => res.write(`data: ${JSON.stringify({
      id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }],
    })}\n\n`);
    if (word === 'broken') {
      res.destroy();
      return;
    }
    if (call) {
      const [name, args] = call;
      const id = `call_${counted ? count++ : 0}`;
      send({ role: 'assistant', content: null, tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: '' } }] });
      for (const piece of pieces(args, 5)) send({ tool_calls: [{ index: 0, function: { arguments: piece } }] });
      send({}, 'tool_calls');
    } else {
      send({ role: 'assistant', content: '' });
      for (const piece of pieces(said, 4)) send({ content: piece });
      send({}, 'stop');
    }
    res.end('data: [DONE]\n\n');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${server.address().port}/v1`;
}
