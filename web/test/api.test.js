import assert from 'node:assert/strict';
import test from 'node:test';

import { chat } from '../static/api.js';

test('a thread that begins names its agent, others name none', async (t) => {
  const asked = [];
  t.mock.method(globalThis, 'fetch', async (path) => {
    asked.push(path);
    return { ok: true };
  });
  await chat({ threadId: 't' }, undefined, 'code & more');
  await chat({ threadId: 't' }, undefined, '');
  assert.deepEqual(asked, ['/api/agui/chat?agent=code%20%26%20more', '/api/agui/chat']);
});
