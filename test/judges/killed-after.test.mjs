// The server was killed and started again: see killed-before.test.mjs.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { base, getJSON, until } from './lib/server.mjs';

afterEach(noComplaints);

for (const client of clients) {
  test(`${client.name}: a killed answer does not look whole`, async () => {
    const threadId = `killed-${client.version}`;
    await until('the Run is ended', async () => (await getJSON(`/api/threads/${threadId}`)).lastRun.status === 'FAILED');
    const back = new Talk(client, { url: `${base}/api/agui/chat?agent=state`, threadId });
    const joined = await back.join();
    assert.deepEqual([joined.last.type, joined.last.code], ['RUN_ERROR', 'server_restarted']);
    assert.match(back.lastText, /^given/);
    assert.deepEqual(back.agent.state, { kept: client.version }, 'the state is lost');
    finishedWell(await back.say('hi'));
    assert.match(back.lastText, new RegExp(`given {"kept":${client.version}}`));
  });

  test(`${client.name}: a question outlives it`, async () => {
    const back = new Talk(client, { threadId: `asked-${client.version}` });
    const [question] = asked(await back.join(), 1);
    finishedWell(await back.answer([question.id, { optionId: 'once' }]));
  });
}
