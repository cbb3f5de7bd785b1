// An HTTP agent that says one frame whenever its test lets it, so that a page can come back at
// every point of an answer however fast the machine is.

import http from 'node:http';

/** StepAgent answers every prompt with the same frames: [event, data] each. */
export class StepAgent {
  #frames;
  #server;
  #said = 0;
  #response;

  static async start(frames) {
    const agent = new StepAgent();
    agent.#frames = frames;
    agent.#server = http.createServer((req, res) => agent.#answer(req, res)).unref();
    await new Promise((resolve) => agent.#server.listen(0, '127.0.0.1', resolve));
    agent.url = `http://127.0.0.1:${agent.#server.address().port}`;
    return agent;
  }

  #answer(req, res) {
    req.resume();
    if (req.method === 'GET') {
      res.end(); // its health
      return;
    }
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.flushHeaders();
    this.#response = res;
  }

  get called() {
    return Boolean(this.#response);
  }

  /** next says the next frame and gives it; undefined when all is said. */
  next() {
    const frame = this.#frames[this.#said];
    if (!frame) {
      this.#response.end();
      return undefined;
    }
    this.#said += 1;
    this.#response.write(`event: ${frame[0]}\ndata: ${JSON.stringify(frame[1])}\n\n`);
    return frame;
  }
}
