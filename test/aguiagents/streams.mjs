// An agent that sends what it is asked for: the text of the newest message is the list of its events, as JSON.

import { createServer } from 'node:http';
import { flat, text } from './scripted.mjs';

const server = createServer(async (req, res) => {
  if (req.method !== 'POST') {
    res.writeHead(405).end();
    return;
  }
  const input = JSON.parse(await text(req));
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const run = { threadId: input.threadId, runId: input.runId };
  const asked = flat(input.messages.findLast((m) => m.role === 'user').content);
  const events = asked.startsWith('[') ? JSON.parse(asked) : [];
  for (const event of [{ type: 'RUN_STARTED', ...run }, ...events, { type: 'RUN_FINISHED', ...run }]) res.write(`data: ${JSON.stringify(event)}\n\n`);
  res.end();
});
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
