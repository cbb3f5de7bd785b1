// The graph of langgraph.mjs with emitInterruptOutcome, where each interrupt comes in both ways.

import { judge } from './judge.mjs';

judge({
  pieces: true, state: true, asksFreely: true,
  asks: ['send_email', 'request_input'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});
