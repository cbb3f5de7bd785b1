// An agent of TanStack AI (tanstack.mjs).

import { judge } from './judge.mjs';

judge({
  pieces: true, sent: true, breaks: true,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /The tool gave .*(denied|declined|rejected)/i,
});
