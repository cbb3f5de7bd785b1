// An MCP server over HTTP with one tool; that tool has a page of its own if it is an app.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createServer } from 'node:http';
import { z } from 'zod';

/** mcpServer gives the server's address. */
export async function mcpServer(name, app) {
  const server = createServer(async (req, res) => {
    const mcp = new McpServer({ name: 'judge', version: '1.0.0' });
    mcp.registerTool(name, {
      description: 'The weather', inputSchema: { city: z.string() }, ...(app && { _meta: { ui: { resourceUri: 'ui://weather' } } }),
    }, async ({ city }) => ({ content: [{ type: 'text', text: `${city}: 7` }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await mcp.connect(transport);
    await transport.handleRequest(req, res);
  });
  server.keepAliveTimeout = 0; // as serve.mjs says
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  return `http://127.0.0.1:${server.address().port}/mcp`;
}
