// An agent of AWS Strands behind @ag-ui/aws-strands (strands.mjs).

import { judge } from './judge.mjs';
import { compare } from './scenarios.mjs';

judge({
  pieces: true, state: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});

compare({
  cannot: {
    'ids of calls that begin anew in each turn': /tool_calls/, // the client takes two calls of one id for one
    'a tool of the page that the person passes over': /no tool message/,
  },
});
