// Reads and checks the frames of a stream, byte for byte, apart from any client's parser.

import assert from 'node:assert/strict';

import { fetch } from './token.mjs';

/** frames reads a response to its end and gives {id, event} for each event. */
export async function frames(response) {
  assert.equal(response.status, 200, `status ${response.status}`);
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  return parseFrames(await response.text());
}

/** parseFrames allows nothing but comments and frames of an optional id and one data line. */
export function parseFrames(text) {
  assert.ok(!text.includes('\r'), 'a CR in the stream');
  assert.ok(text === '' || text.endsWith('\n\n'), 'the last frame is cut');
  const found = [];
  for (const block of text.split('\n\n').slice(0, -1)) {
    if (block.startsWith(':')) continue;
    const match = /^(?:id: ([0-9]+)\n)?data: (.*)$/.exec(block);
    assert.ok(match, `not a frame: ${JSON.stringify(block)}`);
    found.push({ id: match[1], event: JSON.parse(match[2]) });
  }
  return found;
}

/** types is the types of events in a row. */
export function types(list) {
  return list.map(({ event }) => event.type);
}

/**
 * cutAfter wraps fetch so that a response ends after n events, as for a reader who goes
 * away: the connection is closed, and the client sees a clean end of what it has.
 */
export function cutAfter(n) {
  return async (url, init) => {
    const gone = new AbortController();
    const response = await fetch(url, { ...init, signal: gone.signal });
    if (!response.body) return response; // 204
    const source = response.body.getReader();
    let left = n;
    let rest = '';
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      async pull(controller) {
        while (left > 0) {
          const { done, value } = await source.read();
          if (done) break;
          const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
          rest = blocks.pop();
          const taken = takeEvents(blocks, left);
          left -= taken.events;
          if (taken.text) {
            controller.enqueue(encoder.encode(taken.text));
            if (left > 0) return;
          }
        }
        controller.close();
        gone.abort();
      },
      cancel: () => gone.abort(),
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

function takeEvents(blocks, most) {
  let events = 0;
  let text = '';
  for (const block of blocks) {
    if (events === most) break;
    if (!block.startsWith(':')) events += 1;
    text += `${block}\n\n`;
  }
  return { events, text };
}
