// What a person decides is what becomes of a call of npm's clients, by either way; and what of one whose server is killed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sdks, textOf } from './common.mjs';
import { deadly, notes, shipped, until, ways, wrapFront } from './fronts.mjs';

const way = process.env.WAY;
const open = ways[way];

for (const [age, sdk] of Object.entries(sdks)) {
  const call = (f, tool, args, options) => f.client.callTool({ name: f.own + tool, arguments: args }, undefined, options);
  const asked = (f, tool, kind) => f.inbox.asked(f.named + tool, kind);

  test(`${age} SDK, ${way}: decisions`, async () => {
    const f = await open(sdk, shipped);
    let result = call(f, 'pay', { amount: 1 });
    await f.inbox.settle(await asked(f, 'pay'), { approved: true });
    assert.equal(textOf(await result), 'paid 1');

    result = call(f, 'pay', { amount: 2 });
    await f.inbox.settle(await asked(f, 'pay'), { approved: false });
    assert.match(textOf(await result), /^rejected: /);
    assert.equal((await result).isError, true);

    result = call(f, 'pay', { amount: 3 });
    await f.inbox.settle(await asked(f, 'pay'), { approved: true, edited_args: { amount: 30 } });
    assert.equal(textOf(await result), 'paid 30');

    result = await call(f, 'env', {});
    assert.match(textOf(result), /^expired: /);
    assert.equal(result.isError, true);

    // What is approved is approved for its arguments: with others the client is asked again.
    await assert.rejects(call(f, 'pay', { amount: 4 }, { timeout: 1000 }), /timed out/);
    const approved = await asked(f, 'pay');
    await f.inbox.settle(approved, { approved: true });
    const other = call(f, 'pay', { amount: 5 });
    const again = await asked(f, 'pay');
    assert.notEqual(again, approved);
    assert.equal(textOf(await call(f, 'pay', { amount: 4 })), 'paid 4');
    await f.inbox.settle(again, { approved: false });
    assert.equal((await other).isError, true);

    assert.deepEqual(notes(f.folder, 'pay').map((n) => n.amount), [1, 30, 4]);
    assert.deepEqual(notes(f.folder, 'env'), []);
    await f.close();
  });

  test(`${age} SDK, ${way}: killed before the tool`, async () => {
    let f = await open(sdk, deadly);
    const lost = call(f, 'pay', { amount: 1 }, { timeout: 2500 });
    const failed = assert.rejects(lost);
    await f.inbox.settle(await asked(f, 'pay'), { approved: true }).catch(() => {}); // it may die before it answers
    await failed;
    assert.deepEqual(notes(f.folder, 'pay'), []);
    f = await f.again();
    const result = call(f, 'pay', { amount: 1 });
    if (!f.remembers) await f.inbox.settle(await asked(f, 'pay'), { approved: true });
    assert.equal(textOf(await result), 'paid 1');
    assert.equal(notes(f.folder, 'pay').length, 1);
    assert.deepEqual(await f.inbox.pending(), []);
    await f.close();
  });

  test(`${age} SDK, ${way}: killed in the tool`, async () => {
    let f = await open(sdk, shipped);
    const args = { amount: 1, hold_ms: 60000 };
    const failed = assert.rejects(call(f, 'pay', args, { timeout: 2500 }));
    await f.inbox.settle(await asked(f, 'pay'), { approved: true });
    await until('the shop is not called', () => notes(f.folder, 'pay').length === 1);
    await f.kill();
    await failed;
    f = await f.again();
    const result = call(f, 'pay', args);
    if (f.remembers) {
      await f.inbox.settle(await asked(f, 'pay', 'input'), { payload: { outcome: 'succeeded', result: 'paid by hand' } });
      assert.equal(textOf(await result), 'paid by hand');
    } else {
      await f.inbox.settle(await asked(f, 'pay'), { approved: false });
      assert.match(textOf(await result), /^rejected: /);
    }
    assert.equal(notes(f.folder, 'pay').length, 1);
    assert.deepEqual(await f.inbox.pending(), []);
    await f.close();
  });

  if (way !== 'wrap') continue;

  test(`${age} SDK, ${way}: the list, once, and what changes in it`, async () => {
    const f = await wrapFront(sdk, shipped);
    assert.deepEqual(f.tools.map((t) => t.name).sort(), ['big', 'die', 'env', 'fail', 'grow', 'look', 'pay']);
    assert.equal(f.client.getServerCapabilities().tools.listChanged, true);
    let changes = 0;
    f.client.fallbackNotificationHandler = async ({ method }) => { changes += method === 'notifications/tools/list_changed'; };
    const grown = call(f, 'grow', {});
    await f.inbox.settle(await asked(f, 'grow'), { approved: true });
    await grown;
    await until('the client is not notified', async () => changes > 0 && (await f.client.listTools()).tools.some((t) => t.name === 'extra'));
    await f.close();
  });
}

if (way === 'wrap') {
  test('current SDK, wrap: the person at the client is asked', async () => {
    const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    const answers = [{ action: 'accept', content: { decision: 'approve' } }, { action: 'accept', content: { decision: 'reject' } }, { action: 'decline' }];
    const shown = [];
    const f = await wrapFront(sdks.current, shipped, undefined, { elicitation: {} }, (client) => client.setRequestHandler(ElicitRequestSchema, async (r) => {
      shown.push(r.params.message);
      return answers[shown.length - 1];
    }));
    const pay = async (amount) => f.client.callTool({ name: 'pay', arguments: { amount } });
    assert.equal(textOf(await pay(1)), 'paid 1');
    assert.equal((await pay(2)).isError, true);
    assert.equal((await pay(3)).isError, true);
    assert.equal(shown.length, 3);
    assert.match(shown[0], /"amount": 1/);
    assert.deepEqual(notes(f.folder, 'pay'), [{ amount: 1 }]);
    await f.close();
  });
}
