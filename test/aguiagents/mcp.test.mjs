// The MCP middleware (@ag-ui/mcp-middleware) in front of the client: it declares the server's tools, runs their calls, and posts
// their results in runs of its own.

import { MCPMiddleware } from '@ag-ui/mcp-middleware';
import { mcpServer } from './mcpserver.mjs';
import { compare } from './scenarios.mjs';

const url = await mcpServer('weather');

compare({
  person: { middleware: () => new MCPMiddleware([{ type: 'http', url, serverId: 'judge' }]) },
  all: {
    'a tool of MCP, twice': async (p) => {
      for (const word of ['mcp', 'mcp', 'bye']) await p.say(word);
    },
    'a tool of MCP, and one of the page': async (p) => {
      await p.say('mcp');
      await p.say('page');
      await p.shows();
      await p.say('bye');
    },
    'reload, and go on': async (p) => {
      await p.say('mcp');
      await p.reloads();
      for (const word of ['mcp', 'bye']) await p.say(word);
    },
    'regenerate': async (p) => {
      for (const word of ['hello', 'mcp']) await p.say(word);
      p.back();
      await p.run();
      await p.say('bye');
    },
  },
});
