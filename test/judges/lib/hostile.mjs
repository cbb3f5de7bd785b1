// What an agent says to get into a page, or to learn who looks at it.

import http from 'node:http';

const owned = '<img src=x onerror="document.title=\'owned\'">';

/** Stranger is a server that counts who asks it for anything. */
export class Stranger {
  asked = [];

  static async start() {
    const stranger = new Stranger();
    stranger.server = http.createServer((req, res) => {
      stranger.asked.push(req.url);
      res.writeHead(404).end();
    });
    await new Promise((resolve) => stranger.server.listen(0, '127.0.0.1', resolve));
    stranger.url = `http://127.0.0.1:${stranger.server.address().port}`;
    return stranger;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** stream is an answer with pictures of that server, and with activities whose titles are no text. */
export function stream(threadId, remote) {
  const message = { messageId: 'hostile-m', role: 'assistant' };
  const activity = (id, content) => ({ type: 'ACTIVITY_SNAPSHOT', messageId: id, activityType: 'plan', content });
  return [
    { type: 'RUN_STARTED', threadId, runId: 'hostile-r' },
    { type: 'TEXT_MESSAGE_START', ...message },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: message.messageId, delta: `before ![a cat](${remote}/cat.png) between <img src="${remote}/html.png"> and\n\n![a dog][dog]\n\n[dog]: ${remote}/dog.png\n\nafter it all` },
    { type: 'TEXT_MESSAGE_END', messageId: message.messageId },
    activity('hostile-1', { title: owned, entries: [{ content: owned, status: 'done' }] }),
    activity('hostile-2', { title: { innerHTML: owned, toString: 1 }, entries: [{ content: { innerHTML: owned }, status: { toString: 1 } }] }),
    activity('hostile-3', { title: [owned], entries: { length: 1 } }),
    activity('hostile-4', { title: 'turned \u202e around', entries: [null] }),
    { type: 'RUN_FINISHED', threadId, runId: 'hostile-r', outcome: { type: 'success' } },
  ].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
}
