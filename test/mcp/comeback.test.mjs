// Clients of npm's SDK that give up a call and make it again: it is asked for once, and runs once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked, each, pending, settle, textOf } from './common.mjs';

let amount = 0;
for (const { name, connect } of each) {
  test(name, async () => {
    const client = await connect();
    amount += 1;
    const pay = { name: 'shop.pay', arguments: { amount } };
    await assert.rejects(client.callTool(pay, undefined, { timeout: 1000 }), /timed out/);
    const id = await asked('shop.pay');
    const again = client.callTool(pay);
    await new Promise((done) => setTimeout(done, 1000));
    assert.deepEqual((await pending()).map((a) => a.approval_id), [id]);
    await settle(id, { approved: true });
    assert.equal(textOf(await again), `paid ${amount}`);
    await client.close();
  });
}
