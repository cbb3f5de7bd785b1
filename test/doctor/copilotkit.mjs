// CopilotKit's runtime with its built-in agent, as its documentation describes. The packages are those of
// examples/copilotkit; the model is the one at MODEL_URL. It prints its port, and ends with its standard input.

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const from = createRequire(new URL('../../examples/copilotkit/package.json', import.meta.url));
const load = (name) => import(pathToFileURL(from.resolve(name)));

const { BuiltInAgent, CopilotRuntime, defineTool } = await load('@copilotkit/runtime/v2');
const { createCopilotNodeListener } = await load('@copilotkit/runtime/v2/node');
const { createOpenAI } = await load('@ai-sdk/openai');
const { z } = await load('zod');

const agent = new BuiltInAgent({
  model: createOpenAI({ baseURL: process.env.MODEL_URL, apiKey: 'key' }).chat('scripted'),
  maxSteps: 3,
  tools: [defineTool({
    name: 'weather', description: 'The weather', parameters: z.object({ city: z.string() }), execute: async ({ city }) => ({ city, degrees: 7 }),
  })],
});
const listener = createCopilotNodeListener({ runtime: new CopilotRuntime({ agents: { default: agent } }), basePath: '/api' });
const server = createServer(listener).listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
