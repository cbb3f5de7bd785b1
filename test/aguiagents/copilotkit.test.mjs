// CopilotKit's built-in agent (copilotkit.mjs). Its page writes what was decided into the conversation, as its result.

import { judge } from './judge.mjs';
import { compare } from './scenarios.mjs';

judge({
  pieces: true, state: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, approved: /"approved":true/, declined: /"approved":false/,
});

compare({
  person: { copilotkit: true },
  cannot: {
    'ids of calls that begin anew in each turn': /RUN_ERROR/, // the client takes two calls of one id for one
    'a tool of the page that the person passes over': /RUN_ERROR/,
  },
});
