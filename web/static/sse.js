// Server-Sent Events from a fetch body. EventSource cannot be used: the chat is a POST.

/** readEvents yields {id, data} for each event of a response body. */
export async function* readEvents(body) {
  const parser = new Parser();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    // Leaving early must close the connection, or the server goes on sending.
    reader.cancel().catch(() => {});
  }
}

/**
 * Parser takes text in pieces of any size and gives whole events. What a cut-off stream
 * leaves without its blank line is no event.
 */
export class Parser {
  #rest = '';
  #id = '';
  #data = [];

  push(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    return lines.map((line) => this.#line(line.endsWith('\r') ? line.slice(0, -1) : line)).filter(Boolean);
  }

  #line(line) {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return null; // a comment: the heartbeat
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.#data.push(value);
    if (field === 'id') this.#id = value;
    return null;
  }

  #dispatch() {
    const event = this.#data.length > 0 ? { id: this.#id, data: this.#data.join('\n') } : null;
    // An id belongs to its own event here, unlike in EventSource: the frames of a join
    // have none, because they are not in the log.
    this.#data = [];
    this.#id = '';
    return event;
  }
}
