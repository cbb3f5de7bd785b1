// An agent of Mastra behind the protocol's own package for it (@ag-ui/mastra): a tool of its own, a tool that suspends until
// somebody answers, the tools of the page, and a working memory, which is the shared state.

import { MastraAgent } from '@ag-ui/mastra';
import { Mastra } from '@mastra/core';
import { Agent } from '@mastra/core/agent';
import { InMemoryStore } from '@mastra/core/storage';
import { createTool } from '@mastra/core/tools';
import { Memory } from '@mastra/memory';
import { z } from 'zod';
import { baseURL, serve } from './serve.mjs';

const sent = [];
const weather = createTool({
  id: 'weather', description: 'The weather', inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => ({ city, degrees: 7 }),
});
const now = createTool({ id: 'now', description: 'The time', inputSchema: z.object({}), execute: async () => ({ now: 'noon' }) });
const sendEmail = createTool({
  id: 'send_email', description: 'Sends an email', inputSchema: z.object({ to: z.string() }),
  suspendSchema: z.object({ to: z.string() }), resumeSchema: z.object({ approved: z.boolean() }),
  execute: async ({ to }, { agent }) => {
    if (!agent.resumeData) return agent.suspend({ to });
    if (!agent.resumeData.approved) return { declined: to };
    sent.push(to);
    return { sent: to };
  },
});

const storage = new InMemoryStore();
const mastra = new Mastra({
  logger: false, storage,
  agents: {
    helper: new Agent({
      id: 'helper', name: 'helper', instructions: 'Help.',
      model: { id: 'custom/m', url: baseURL, apiKey: 'key' },
      tools: { weather, now, send_email: sendEmail },
      memory: new Memory({ storage, options: { workingMemory: { enabled: true, scope: 'thread', schema: z.object({ count: z.number() }) } } }),
    }),
  },
});

serve(() => new MastraAgent({ agent: mastra.getAgent('helper'), resourceId: 'user' }), sent);
