// A thread's history through the converter that @tdesign-react/chat exports. It is taken from the package that holds it:
// the whole of @tdesign-react/chat needs a browser.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';

import { AGUIAdapter } from '../../examples/tdesign/node_modules/tdesign-web-components/esm/chat-engine/adapters/agui/index.js';
import { base, getJSON, newId, post } from './lib/server.mjs';
import { fetch } from './lib/token.mjs';

test('convertHistoryMessages keeps pictures, files and times', async () => {
  const threadId = newId('thread');
  const before = Date.now();
  const parts = [[100, 'image', 'image/png', 'small.png'], [100_000, 'image', 'image/jpeg', 'large [1].jpg'], [70_000, 'document', 'application/pdf', 'plan.pdf']];
  const sent = parts.map(([size, type, mimeType, filename]) => ({
    type, source: { type: 'data', value: randomBytes(size).toString('base64'), mimeType }, metadata: { filename },
  }));
  const response = await post('/api/agui/chat', {
    threadId, runId: newId('run'), protocolVersion: '1.0', messages: [{ id: newId('user'), role: 'user', content: [{ type: 'text', text: 'text' }, ...sent] }],
  });
  assert.match(await response.text(), /RUN_FINISHED/);

  const messages = await getJSON(`/api/threads/${threadId}/messages`);
  const [user, assistant] = AGUIAdapter.convertHistoryMessages(messages);
  assert.equal(user.role, 'user');
  assert.equal(assistant.role, 'assistant');
  const at = Date.parse(user.datetime);
  assert.ok(at >= before - 1 && at <= Date.now(), `datetime ${user.datetime}`);
  assert.ok(messages.every((m) => m.timestamp >= before - 1), 'every message has its time');

  const { data } = user.content[0];
  assert.ok(data.startsWith('text\n'), data);
  const links = [...data.matchAll(/^(!?)\[(.*)\]\((.*)\)$/gm)];
  assert.deepEqual(links.map(([, image, name]) => [image, name]), [['!', 'small.png'], ['!', 'large (1).jpg'], ['', 'plan.pdf']]);
  for (const [n, [, , , url]] of links.entries()) {
    const part = await fetch(new URL(url, base));
    assert.equal(part.headers.get('content-type'), sent[n].source.mimeType);
    assert.equal(Buffer.from(await part.arrayBuffer()).toString('base64'), sent[n].source.value);
  }
  // What examples/tdesign makes TDesign's attachments of.
  assert.equal(messages[0].text, 'text');
  assert.deepEqual(messages[0].attachments.map(({ fileType, name, url }) => [fileType, name, url]), [
    ['image', 'small.png', links[0][3]], ['image', 'large [1].jpg', links[1][3]], ['pdf', 'plan.pdf', links[2][3]],
  ]);
});
