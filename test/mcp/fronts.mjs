// The ways from a client to the shop's tools, whose calls a person decides: /mcp of a server, and aqueduct mcp --wrap. Both are started
// here, so that they can be killed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { connected, inbox } from './common.mjs';

const { AQUEDUCT_PROGRAM, AQUEDUCT_FUSED, SHOP, FOLDER, USER_TOKEN } = process.env;

// shipped and deadly are what a front is started with: the program, and the one that is killed between the commit of an approval and
// the call of the tool.
export const shipped = { program: AQUEDUCT_PROGRAM };
export const deadly = { program: AQUEDUCT_FUSED, env: { AQUEDUCT_FAILPOINT: 'before_tool_dispatch:1' } };

let fronts = 0;

// place makes the folder of a front: the shop's notes, the policy, and what is kept.
function place(server) {
  const folder = `${FOLDER}/${(fronts += 1)}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/policy.yaml`, `rules:
  - {name: editable, tool: ${server}.pay, verdict: require_approval, may_edit: true}
  - {name: hurry, tool: ${server}.env, verdict: require_approval, ttl: 1s}
`);
  return folder;
}

const shopOf = (folder) => `env MCP_SHOP=${folder} ${SHOP}`;

// notes are the arguments that a tool of the shop ran with.
export function notes(folder, tool) {
  let raw = '';
  try { raw = readFileSync(`${folder}/notes`, 'utf8'); } catch { /* none yet */ }
  return raw.split('\n').filter((line) => line.startsWith(`${tool} `)).map((line) => JSON.parse(line.slice(tool.length + 1)));
}

// until waits for a value.
export async function until(what, look) {
  for (let i = 0; i < 400; i++) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(what);
}

async function httpFront(sdk, how, folder = place('shop')) {
  const args = ['serve', '--listen', '127.0.0.1:0', '--name', 'one', '--state', `${folder}/state`, '--mcp', `shop=${shopOf(folder)}`, '--policy-file', `${folder}/policy.yaml`];
  const server = spawn(how.program, args, { env: { ...process.env, ...how.env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((done) => server.once('exit', done));
  const base = await new Promise((done, failed) => {
    ended.then(() => failed(new Error('it ended before it listened')));
    createInterface(server.stdout).on('line', (line) => {
      const found = /listening on .*?(127\.0\.0\.1:\d+)/.exec(line);
      if (found) done(`http://${found[1]}`);
    });
  });
  const { StreamableHTTPClientTransport } = await sdk('streamableHttp');
  const client = await connected(sdk, new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${USER_TOKEN}` } } }));
  await until('no tools', async () => (await client.listTools()).tools.length > 0);
  const kill = async () => { server.kill('SIGKILL'); await ended; };
  return {
    client, folder, kill, remembers: true, own: 'shop.', named: 'shop.', inbox: inbox(base, USER_TOKEN), again: () => httpFront(sdk, shipped, folder),
    close: async () => { await client.close(); await kill(); },
  };
}

// wrapFront lists the tools once, as clients do.
export async function wrapFront(sdk, how, folder = place('wrapped'), capabilities, prepare) {
  const { StdioClientTransport } = await sdk('stdio');
  const transport = new StdioClientTransport({
    command: how.program, args: ['mcp', '--wrap', shopOf(folder), '--state', `${folder}/state`, '--policy-file', `${folder}/policy.yaml`],
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...how.env }, stderr: 'pipe',
  });
  let log = '';
  transport.stderr.on('data', (chunk) => { log += chunk; });
  const client = await connected(sdk, transport, capabilities, prepare);
  const { tools } = await client.listTools();
  const base = await until('no page', () => /approved at (http:\/\/127\.0\.0\.1:\d+)\//.exec(log)?.[1]);
  return {
    client, folder, tools, remembers: false, own: '', named: 'wrapped.', inbox: inbox(base, readFileSync(`${folder}/state/token`, 'utf8').trim()),
    kill: async () => process.kill(transport.pid ?? transport._process.pid, 'SIGKILL'), again: () => wrapFront(sdk, shipped, folder), close: () => client.close(),
  };
}

export const ways = { http: httpFront, wrap: wrapFront };
