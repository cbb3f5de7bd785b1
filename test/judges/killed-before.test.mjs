// Answers that are under way, and a question that is open, when the server is killed. What became of them is in
// killed-after.test.mjs.

import { test } from 'node:test';

import { asked, clients, Talk } from './lib/clients.mjs';
import { base } from './lib/server.mjs';
import { cutAfter } from './lib/stream.mjs';

for (const client of clients) {
  test(`${client.name}: an answer under way`, async () => {
    const talk = new Talk(client, { url: `${base}/api/agui/chat?agent=state`, threadId: `killed-${client.version}`, fetch: cutAfter(4) });
    talk.agent.setState({ kept: client.version });
    await talk.say('wait');
  });

  test(`${client.name}: a question`, async () => {
    const talk = new Talk(client, { url: `${base}/api/agui/chat?agent=demo`, threadId: `asked-${client.version}` });
    asked(await talk.say('ask'), 1);
  });
}
