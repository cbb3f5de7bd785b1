// A graph of LangGraph behind @ag-ui/langgraph (langgraph.mjs, graph.mjs).

import { judge } from './judge.mjs';
import { compare } from './scenarios.mjs';

judge({
  pieces: true, state: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});

compare({
  cannot: { 'a tool of the page that the person passes over': /STEP_FINISHED/ }, // the model refuses a call without a result
});
