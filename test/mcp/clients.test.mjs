// Clients of npm's SDK, a current and an old one, at /mcp of a running Aqueduct and at "aqueduct mcp" over standard streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';

const sdks = {
  current: async (path) => import(`@modelcontextprotocol/sdk/client/${path}.js`),
  old: async (path) => import(`mcp-sdk-old/client/${path}.js`),
};
const { AQUEDUCT_URL: base, USER_TOKEN: user, AGENT_TOKEN: agent, AQUEDUCT_PROGRAM: program, TOKEN_FILE: tokenFile } = process.env;

async function api(path, body) {
  const headers = { authorization: `Bearer ${user}`, 'content-type': 'application/json' };
  const response = await fetch(base + path, { headers, ...(body && { method: 'POST', body: JSON.stringify(body) }) });
  assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
  return response.json();
}

// asked waits for the open question about a tool.
async function asked(tool) {
  for (let i = 0; i < 400; i++) {
    const { approvals } = await api('/api/approvals?status=PENDING');
    const found = approvals.find((a) => a.tool_name === tool);
    if (found) return found.approval_id;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`no question about ${tool}`);
}

const decide = async (tool, words) => api(`/api/approvals/${await asked(tool)}/decision`, words);
const textOf = (result) => result.content.map((c) => c.text).join('\n');

const ways = {
  'http, an agent': async (sdk) => {
    const { StreamableHTTPClientTransport } = await sdk('streamableHttp');
    return new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${agent}` } } });
  },
  'http, a program': async (sdk) => {
    const { StreamableHTTPClientTransport } = await sdk('streamableHttp');
    return new StreamableHTTPClientTransport(new URL(`${base}/mcp?thread=npm`), { requestInit: { headers: { Authorization: `Bearer ${user}` } } });
  },
  ...(program && {
    'standard streams': async (sdk) => {
      const { StdioClientTransport } = await sdk('stdio');
      return new StdioClientTransport({ command: program, args: ['mcp', '--url', base, '--token-file', tokenFile], stderr: 'inherit' });
    },
  }),
};

for (const [age, sdk] of Object.entries(sdks)) {
  for (const [way, open] of Object.entries(ways)) {
    test(`${age} SDK, ${way}`, async () => {
      const { Client } = await sdk('index');
      const client = new Client({ name: 'npm', version: '1' });
      await client.connect(await open(sdk));
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
}
