// What the tests of npm's clients share: both versions of the SDK, and the ways to a running Aqueduct.
import assert from 'node:assert/strict';

export const sdks = {
  current: async (path) => import(`@modelcontextprotocol/sdk/client/${path}.js`),
  old: async (path) => import(`mcp-sdk-old/client/${path}.js`),
};
const { AQUEDUCT_URL: base, USER_TOKEN: user, AGENT_TOKEN: agent, AQUEDUCT_PROGRAM: program, TOKEN_FILE: tokenFile } = process.env;

// inbox is where a person decides.
export function inbox(base, token) {
  async function api(path, body) {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(base + path, { headers, ...(body && { method: 'POST', body: JSON.stringify(body) }) });
    assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
    return response.json();
  }
  const pending = async () => (await api('/api/approvals?status=PENDING')).approvals;
  // asked waits for the open question about a tool.
  async function asked(tool, kind = 'permission') {
    for (let i = 0; i < 400; i++) {
      const found = (await pending()).find((a) => a.tool_name === tool && a.kind === kind);
      if (found) return found.approval_id;
      await new Promise((done) => setTimeout(done, 50));
    }
    assert.fail(`no question about ${tool}`);
  }
  const settle = async (id, words) => api(`/api/approvals/${id}/decision`, words);
  return { pending, asked, settle, decide: async (tool, words) => settle(await asked(tool), words) };
}

export const { pending, asked, settle, decide } = inbox(base, user);
export const textOf = (result) => result.content.map((c) => c.text).join('\n');

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

// connected makes a client.
export async function connected(sdk, transport, capabilities = {}, prepare = () => {}) {
  const { Client } = await sdk('index');
  const client = new Client({ name: 'npm', version: '1' }, { capabilities });
  prepare(client);
  await client.connect(transport);
  return client;
}

// each is every version by every way.
export const each = Object.entries(sdks).flatMap(([age, sdk]) =>
  Object.entries(ways).map(([way, open]) => ({ name: `${age} SDK, ${way}`, connect: async () => connected(sdk, await open(sdk)) })));
