// A2UI's official middleware, as it ships, on both official clients: what a button of a surface says is in forwardedProps,
// and in a call with its result that the middleware makes up for each press.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { A2UIMiddleware } from '@ag-ui/a2ui-middleware';

import { clients, noComplaints, Talk } from './lib/clients.mjs';
import { atRest, base } from './lib/server.mjs';

afterEach(noComplaints);

const url = `${base}/api/agui/chat?agent=a2ui`;

/** What the agent was called with: it answers with that as JSON. */
const saw = (talk) => JSON.parse(talk.agent.messages.filter((m) => m.role === 'assistant' && m.content).at(-1).content);

const press = (name) => ({ forwardedProps: { a2uiAction: { userAction: { name, surfaceId: 'form', sourceComponentId: 'button', context: { seats: 2 } } } } });

for (const client of clients) {
  for (const [how, config] of [['by the agent', undefined], ['by the page', { injectA2UITool: true }]]) {
    describe(`${client.name}, surfaces drawn ${how}`, () => {
      const page = (threadId) => {
        const talk = new Talk(client, { url, threadId });
        talk.agent.use(new A2UIMiddleware(config));
        return talk;
      };

      test('a button pressed twice calls the agent twice, with the press', async () => {
        const talk = page();
        await talk.say('surface please');
        const surfaces = talk.agent.messages.filter((m) => m.role === 'activity');
        assert.equal(surfaces.length, 1, 'the surface is not drawn');
        for (const [n, name] of ['book', 'pay'].entries()) {
          await talk.run(press(name));
          const seen = saw(talk);
          assert.equal(seen.call, n + 2, 'the agent was not called once for the press');
          assert.equal(seen.props.a2uiAction.userAction.name, name);
          assert.deepEqual(seen.pressed, [`User performed action "${name}" on surface "form" (component: button). Context: {"seats":2}`]);
          assert.deepEqual(seen.roles.slice(-2), ['assistant', 'tool']);
        }
        await talk.say('and now?');
        assert.equal(saw(talk).call, 4);
        assert.deepEqual(saw(talk).pressed, []);
      });

      test('a page that is loaded again calls no agent', async () => {
        const talk = page();
        await talk.say('surface please');
        await talk.run(press('book'));
        const { call } = saw(talk);
        for (let i = 0; i < 20; i++) {
          const again = page(talk.threadId);
          again.agent.setState({ locale: 'en' });
          await again.run({ forwardedProps: { theme: 'dark' } });
          assert.equal(saw(again).call, call);
        }
        await atRest(talk.threadId);
        await talk.run(press('pay'));
        assert.equal(saw(talk).call, call + 1);
      });
    });
  }
}
