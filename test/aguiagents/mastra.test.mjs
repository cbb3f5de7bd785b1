// An agent of Mastra behind @ag-ui/mastra (mastra.mjs). It shows no call of a tool that is suspended, only the interrupt.

import { judge } from './judge.mjs';
import { compare } from './scenarios.mjs';

judge({
  state: true, sent: true, breaks: true,
  asks: ['request_permission'], message: /^send_email$/, declined: /"declined":"ada@example.org"/,
});

compare({
  without: ['a tool of the page, twice'], // its memory has the second call without its result, and the model calls again
  cannot: { 'ids of calls that begin anew in each turn': /Unexpected non-whitespace/ }, // the client takes two calls of one id for one
});
