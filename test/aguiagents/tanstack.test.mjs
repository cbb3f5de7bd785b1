// An agent of TanStack AI (tanstack.mjs). Its stream is for its own client: the official one refuses what comes behind the first
// RUN_FINISHED, and Aqueduct makes one run of it.

import { judge } from './judge.mjs';
import { compare, scenarios } from './scenarios.mjs';

judge({
  pieces: true, sent: true, breaks: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /The tool gave .*(denied|declined|rejected)/i,
});

const own = /already finished with 'RUN_FINISHED'|not addressed by resume|requires parentRunId/;
compare({
  cannot: Object.fromEntries(Object.keys(scenarios).filter((name) => name !== 'chat').map((name) => [name, own])),
  without: ['the state'],
});
