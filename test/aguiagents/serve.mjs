// An agent of the protocol's own packages as a server: each request is one run of a new agent, whose events the protocol's own
// encoder writes. It prints its port, and ends with its standard input.

import { createServer } from 'node:http';
import { EventEncoder } from '@ag-ui/encoder';
import { text } from './scripted.mjs';

/** The base URL of the model that all agents have: see model_test.go. */
export const baseURL = process.env.MODEL_URL;

/** listen starts a server, prints its port and ends with the standard input. */
export function listen(server) {
  server.keepAliveTimeout = 0; // a connection that ends while a client sends its next request on it is a failure here
  server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
  process.stdin.on('end', () => process.exit(0)).resume();
}

/** serve serves the agents that make makes. GET /sent is the list of what their tools have sent, if there is one. */
export function serve(make, sent) {
  listen(createServer(async (req, res) => {
    if (req.url === '/sent') {
      res.end(JSON.stringify(sent));
      return;
    }
    if (req.method !== 'POST') {
      res.writeHead(405).end();
      return;
    }
    const encoder = new EventEncoder({ accept: req.headers.accept });
    const send = (event) => res.write(encoder.encodeSSE(event));
    const input = JSON.parse(await text(req));
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const running = make().run(input).subscribe({
      next: send,
      error: (failure) => {
        send({ type: 'RUN_ERROR', message: String(failure?.message ?? failure) });
        res.end();
      },
      complete: () => res.end(),
    });
    res.on('close', () => running.unsubscribe());
  }));
}
