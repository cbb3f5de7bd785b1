// An agent of AWS Strands behind the protocol's own package for it (@ag-ui/aws-strands), with that package's own server: a tool
// of its own, a tool that interrupts until a person answers, a tool that sets the state, and the tools of the page.

import { Agent, tool } from '@strands-agents/sdk';
import { OpenAIModel } from '@strands-agents/sdk/models/openai';
import { createServer } from 'node:http';
import { z } from 'zod';
import { baseURL, listen } from './serve.mjs';
import { StrandsAgent, createStrandsApp } from './strands/adapter.mjs';

const agent = new Agent({
  model: new OpenAIModel({ api: 'chat', modelId: 'gpt-4o', apiKey: 'key', clientConfig: { baseURL, maxRetries: 0 } }),
  printer: false,
  systemPrompt: 'Help.',
  tools: [
    tool({ name: 'weather', description: 'The weather', inputSchema: z.object({ city: z.string() }), callback: ({ city }) => ({ city, degrees: 7 }) }),
    tool({ name: 'now', description: 'The time', inputSchema: z.object({}), callback: () => ({ now: 'noon' }) }),
    tool({ name: 'count', description: 'Counts', inputSchema: z.object({}), callback: () => ({ counted: true }) }),
    tool({
      name: 'send_email', description: 'Sends an email', inputSchema: z.object({ to: z.string() }),
      callback: ({ to }, context) => {
        const { approved } = context.interrupt({ name: 'approval', reason: { tool: 'send_email', to } });
        return approved ? { sent: to } : { declined: to };
      },
    }),
  ],
});

listen(createServer(await createStrandsApp(new StrandsAgent({
  agent, name: 'helper', config: { toolBehaviors: { count: { stateFromResult: () => ({ count: 2 }) } } },
}), { path: '/' })));
