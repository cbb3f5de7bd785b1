// A graph of LangGraph behind @ag-ui/langgraph (langgraph.mjs, graph.mjs).

import { judge } from './judge.mjs';
import { compare, scenarios } from './scenarios.mjs';

judge({
  pieces: true, state: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});

compare({
  all: {
    ...scenarios,
    'a question with a free answer': async (p) => {
      await p.say('ask');
      await p.decides('Ada');
      await p.say('bye');
    },
  },
  loose: ['edit'], // its memory keeps what was edited, and its snapshots bring that back
  cannot: { 'a tool of the page that the person passes over': /STEP_FINISHED/ }, // the model refuses a call without a result
});
