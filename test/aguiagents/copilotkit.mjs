// CopilotKit's built-in agent (BuiltInAgent of @copilotkit/runtime) on the Vercel AI SDK, as an AG-UI server: a tool of its own,
// a tool that interrupts until a person answers, its own tools for the state, and the tools of the page. The package is the one
// of examples/copilotkit.

import { createRequire } from 'node:module';
import { z } from 'zod';
import { baseURL, serve } from './serve.mjs';

const require = createRequire(new URL('../../examples/copilotkit/package.json', import.meta.url));
const { BuiltInAgent, defineTool } = require('@copilotkit/runtime/v2');
const { createOpenAI } = createRequire(require.resolve('@copilotkit/runtime'))('@ai-sdk/openai');

const model = createOpenAI({ baseURL, apiKey: 'key' }).chat('gpt-4o');
const tools = [
  defineTool({ name: 'weather', description: 'The weather', parameters: z.object({ city: z.string() }), execute: async ({ city }) => ({ city, degrees: 7 }) }),
  defineTool({ name: 'now', description: 'The time', parameters: z.object({}), execute: async () => ({ now: 'noon' }) }),
  defineTool({ name: 'send_email', description: 'Sends an email', parameters: z.object({ to: z.string() }), interrupt: true, interruptMessage: 'Run send_email?' }),
];

serve(() => new BuiltInAgent({ model, tools, maxSteps: 5, prompt: 'Help.' }));
