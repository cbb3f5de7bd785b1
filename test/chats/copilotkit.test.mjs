// CopilotKit's React page and runtime: examples/copilotkit, built and started as its README says.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';

import { Stranger } from '../judges/lib/hostile.mjs';
import { CopilotPage, example, runtime } from './lib/copilotkit.mjs';
import { World } from './lib/world.mjs';
import { matrix } from './matrix.mjs';

let world;
let started;

before(async () => {
  world = await World.start();
  started = await runtime(world, 'npm', ['start', '--silent'], example);
});

after(async () => {
  await world?.stop();
  await started?.end();
});

matrix(() => ({
  world,
  async open(threadId) {
    const chat = new CopilotPage(await world.page(`${started.url}?thread=${threadId}`));
    await chat.ready();
    return chat;
  },
  async restart() {
    await started.end('SIGKILL');
    await started.start();
  },
}));

// Its runtime acts with Aqueduct's token, so it must not act for pages of other sites.
test('the runtime serves its own page alone', async () => {
  const { host } = new URL(started.url);
  const body = JSON.stringify({ threadId: 'foreign', runId: 'foreign', messages: [{ id: 'u', role: 'user', content: 'say hello' }], tools: [], context: [], state: {}, forwardedProps: {} });
  const status = (headers) => new Promise((resolve, reject) => {
    http.request(`${started.url}api/copilotkit/agent/default/run`, { method: 'POST', headers: { 'content-type': 'text/plain', ...headers } }, (res) => {
      res.resume().on('end', () => resolve(res.statusCode));
    }).on('error', reject).end(body);
  });
  for (const headers of [
    { host: 'attacker.example' }, { host: `attacker.example:${new URL(started.url).port}`, origin: 'http://attacker.example' },
    { origin: 'http://evil.example' }, { origin: 'null' }, { origin: `http://localhost:${new URL(started.url).port}` },
    { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site', origin: `http://${host}` },
  ]) assert.equal(await status(headers), 403, JSON.stringify(headers));
  assert.ok(!world.agent.prompts.includes('say hello'));
  for (const headers of [{}, { origin: `http://${host}` }, { origin: 'http://127.0.0.1:5173', 'sec-fetch-site': 'same-origin' }]) {
    assert.equal(await status(headers), 200, JSON.stringify(headers));
  }
});

test('S57: a remote picture is a link, and a policy is sent', async () => {
  const policy = (await fetch(started.url)).headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'; script-src 'self';/);
  const stranger = await Stranger.start();
  try {
    const page = await world.page(`${started.url}?thread=remote-${Date.now()}`);
    const chat = new CopilotPage(page);
    await chat.ready();
    await chat.send(`say look ![cat](${stranger.url}/cat.png) <img src="${stranger.url}/html.png"> that is all`);
    await page.locator('[data-copilotkit]').getByText('that is all').last().waitFor();
    await page.getByTestId('copilot-assistant-message').locator(`a[href="${stranger.url}/cat.png"]`).waitFor();
    assert.equal(await page.locator(`img[src^="${stranger.url}"]`).count(), 0);
    assert.deepEqual(stranger.asked, []);
    await page.close();
  } finally {
    stranger.close();
  }
});

test('the runtime outlived it all', () => assert.ok(started.alive, started.output));
