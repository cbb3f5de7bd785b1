// An HTTP agent that says one frame whenever its test lets it, so that a page can come back at
// every point of an answer however fast the machine is.

import http from 'node:http';

/** StepAgent answers every call with the frames that frames(body) gives, or with the same: [event, data] each. */
export class StepAgent {
  /** calls are the bodies that it was called with. */
  calls = [];

  #frames;
  #server;
  #saying = [];
  #response;

  static async start(frames) {
    const agent = new StepAgent();
    agent.#frames = typeof frames === 'function' ? frames : () => frames;
    agent.#server = http.createServer((req, res) => agent.#answer(req, res)).unref();
    await new Promise((resolve) => agent.#server.listen(0, '127.0.0.1', resolve));
    agent.url = `http://127.0.0.1:${agent.#server.address().port}`;
    return agent;
  }

  async #answer(req, res) {
    if (req.method === 'GET') {
      res.end(); // its health
      return;
    }
    let text = '';
    for await (const chunk of req.setEncoding('utf8')) text += chunk;
    const body = JSON.parse(text);
    this.calls.push(body);
    this.#saying = [...this.#frames(body)];
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.flushHeaders();
    this.#response = res;
  }

  get called() {
    return Boolean(this.#response);
  }

  /** next says the next frame and gives it; undefined when all is said. */
  next() {
    const frame = this.#saying.shift();
    if (!frame) {
      this.#response.end();
      return undefined;
    }
    this.#response.write(`event: ${frame[0]}\ndata: ${JSON.stringify(frame[1])}\n\n`);
    return frame;
  }
}
