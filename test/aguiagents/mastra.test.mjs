// An agent of Mastra behind @ag-ui/mastra (mastra.mjs). It shows no call of a tool that is suspended, only the interrupt.

import { judge } from './judge.mjs';

judge({
  state: true, sent: true, breaks: true,
  asks: ['request_permission'], message: /^send_email$/, declined: /"declined":"ada@example.org"/,
});
