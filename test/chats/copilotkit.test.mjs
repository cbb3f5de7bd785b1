// CopilotKit's React page and runtime: examples/copilotkit, built and started as its README says.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

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

test('the runtime outlived it all', () => assert.ok(started.alive, started.output));
