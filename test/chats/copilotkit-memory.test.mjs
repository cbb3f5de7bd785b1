// CopilotKit's page on its runtime with the runner it brings, which knows threads only as long as it lives.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { CopilotPage, runtime } from './lib/copilotkit.mjs';
import { World } from './lib/world.mjs';
import { matrix } from './matrix.mjs';

let world;
let started;

before(async () => {
  world = await World.start();
  started = await runtime(world, 'node', [fileURLToPath(new URL('lib/memory-runtime.mjs', import.meta.url))]);
});

after(async () => {
  await world?.stop();
  await started?.end();
});

// Not here, because this runner cannot: it answers a reload from its own memory, in which a
// question that was answered is open again and a branch stands behind what it replaces, and
// @ag-ui/client 0.0.59 ends the process when the connection of an answer breaks.
const without = [
  'regenerate', 'edit', 'reload at every cut point', 'killed in mid-answer, started again, and on',
  'an open question outlives Aqueduct, and can still be clicked', 'a second page in the third Turn, at every cut point: the order is that of the log',
];

matrix(() => ({
  world,
  async open(threadId) {
    const chat = new CopilotPage(await world.page(`${started.url}?thread=${threadId}`));
    await chat.ready();
    return chat;
  },
}), { without });

test('the runtime outlived it all', () => assert.ok(started.alive, started.output));
