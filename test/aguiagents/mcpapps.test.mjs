// The MCP-Apps middleware (@ag-ui/mcp-apps-middleware) in front of the client: it runs calls of tools that have a page, shows
// that page as an activity, and ends the run; the result goes to the agent with the next message.

import { MCPAppsMiddleware } from '@ag-ui/mcp-apps-middleware';
import { mcpServer } from './mcpserver.mjs';
import { compare } from './scenarios.mjs';

const url = await mcpServer('mcp__weather', 'as an app');

compare({
  loose: ['an app, reload, and go on'], // the middleware keeps its pages in the client
  person: { middleware: () => new MCPAppsMiddleware({ mcpServers: [{ type: 'http', url, serverId: 'judge' }] }) },
  all: {
    'an app, twice': async (p) => {
      for (const word of ['mcp', 'hello', 'mcp', 'bye']) await p.say(word);
    },
    'an app that asks its server': async (p) => {
      await p.say('mcp');
      const params = { name: 'mcp__weather', arguments: { city: 'Bergen' } };
      await p.run({ forwardedProps: { __proxiedMCPRequest: { serverId: 'judge', method: 'tools/call', params } } });
      await p.say('bye');
    },
    'an app, and a tool of the page': async (p) => {
      for (const word of ['mcp', 'page']) await p.say(word);
      await p.shows();
      await p.say('bye');
    },
    'an app, reload, and go on': async (p) => {
      for (const word of ['mcp', 'hello']) await p.say(word);
      await p.reloads();
      for (const word of ['mcp', 'bye']) await p.say(word);
    },
    'regenerate': async (p) => {
      for (const word of ['mcp', 'hello']) await p.say(word);
      p.back();
      await p.run();
      await p.say('bye');
    },
  },
});
