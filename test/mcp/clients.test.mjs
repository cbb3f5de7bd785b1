// Clients of npm's SDK, a current and an old one, at /mcp of a running Aqueduct and at "aqueduct mcp" over standard streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide, each, textOf } from './common.mjs';

for (const { name, connect } of each) {
  test(name, async () => {
    const client = await connect();
    assert.equal(client.getServerVersion().name, 'aqueduct');

    const { tools } = await client.listTools();
    const pay = tools.find((t) => t.name === 'shop.pay');
    assert.equal(pay.description, 'Does pay.');
    assert.deepEqual(pay.inputSchema.required, ['amount']);

    const heard = [];
    const call = (args, options) => client.callTool({ name: 'shop.pay', arguments: args }, undefined, { onprogress: (p) => heard.push(p), ...options });
    let result = call({ amount: 1 });
    await decide('shop.pay', { approved: true });
    assert.equal(textOf(await result), 'paid 1');
    assert.ok(heard.length > 0, 'no progress');

    result = call({ amount: 2 });
    await decide('shop.pay', { approved: false });
    assert.match(textOf(await result), /^rejected/);
    assert.equal((await result).isError, true);

    result = call({ amount: 3 });
    await decide('shop.pay', { approved: true, edited_args: { amount: 33 } });
    assert.equal(textOf(await result), 'paid 33');

    const looked = await client.callTool({ name: 'shop.look', arguments: {} });
    assert.deepEqual(JSON.parse(textOf(looked)), { open: true });

    const blocked = await client.callTool({ name: 'shop.die', arguments: {} });
    assert.match(textOf(blocked), /^blocked: It must live/);

    const image = client.callTool({ name: 'every.get-tiny-image', arguments: {} });
    await decide('every.get-tiny-image', { approved: true });
    assert.equal((await image).content[1].type, 'image');
    assert.equal((await image).content[1].mimeType, 'image/png');
    await client.close();
  });
}
