// LangGraph's own server with one graph, and a client of it. The server keeps its files in a directory that is deleted at the end.

import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '@langchain/langgraph-api/server';
import { Client } from '@langchain/langgraph-sdk';

// LangGraph's server ends connections that were idle for five seconds. On a busy machine its client may send a request on one at that
// moment, which fails and is not tried again.
const make = http.createServer;
http.createServer = (...how) => Object.assign(make(...how), { keepAliveTimeout: 0 });
syncBuiltinESMExports();

/** start serves the graph of a file of this directory, and returns what an agent of @ag-ui/langgraph is made of. */
export async function start(file, keys) {
  const cwd = mkdtempSync(join(tmpdir(), 'langgraph-'));
  process.on('exit', () => rmSync(cwd, { recursive: true, force: true }));
  const port = await new Promise((done) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
  await startServer({ port, nWorkers: 12, host: '127.0.0.1', cwd, graphs: { judge: `${join(import.meta.dirname, file)}:graph` } });
  const deploymentUrl = `http://127.0.0.1:${port}`;
  const client = new Client({ apiUrl: deploymentUrl });
  // The server reads a graph's schema from types, of which a graph in JavaScript has none.
  const schema = { type: 'object', properties: Object.fromEntries(keys.map((key) => [key, {}])) };
  client.assistants.getSchemas = async () => ({ graph_id: 'judge', input_schema: schema, output_schema: schema, state_schema: schema });
  return { client, deploymentUrl, graphId: 'judge' };
}
