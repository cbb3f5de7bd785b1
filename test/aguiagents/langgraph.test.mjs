// A graph of LangGraph behind @ag-ui/langgraph (langgraph.mjs, graph.mjs).

import { judge } from './judge.mjs';

judge({
  pieces: true, state: true, asksFreely: true, told: !process.env.OUTCOME,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});
