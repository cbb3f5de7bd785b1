// A graph of LangGraph (graph.mjs) on LangGraph's own server, behind the protocol's own package for it (@ag-ui/langgraph). The
// server keeps its files in a directory that is deleted at the end.

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LangGraphAgent } from '@ag-ui/langgraph';
import { startServer } from '@langchain/langgraph-api/server';
import { Client } from '@langchain/langgraph-sdk';
import { serve } from './serve.mjs';

const cwd = mkdtempSync(join(tmpdir(), 'langgraph-'));
process.on('exit', () => rmSync(cwd, { recursive: true, force: true }));

const port = await new Promise((done) => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});
await startServer({ port, nWorkers: 12, host: '127.0.0.1', cwd, graphs: { judge: `${join(import.meta.dirname, 'graph.mjs')}:graph` } });

const client = new Client({ apiUrl: `http://127.0.0.1:${port}` });
// The server reads a graph's schema from types, of which a graph in JavaScript has none.
const schema = { type: 'object', properties: { messages: {}, tools: {}, count: {} } };
client.assistants.getSchemas = async () => ({ graph_id: 'judge', input_schema: schema, output_schema: schema, state_schema: schema });

// As it ships the package tells an interrupt by CUSTOM on_interrupt alone; with the argument "outcome", in both ways.
const settings = process.argv[2] === 'outcome' ? { emitInterruptOutcome: true } : {};
serve(() => new LangGraphAgent({ client, deploymentUrl: `http://127.0.0.1:${port}`, graphId: 'judge', ...settings }));
