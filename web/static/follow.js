// One thread, followed over at most one stream at a time. Whatever breaks the stream, the
// page comes back by joining: the server has every event, the page needs to remember none.

import { connect } from './api.js';
import { readEvents } from './sse.js';

const firstPause = 500; // ms before the first attempt to come back
const longestPause = 10_000;

export class Follower {
  #onEvent;
  #onStatus;
  #stop = null; // AbortController of the stream being read

  /**
   * onEvent(event, seq) gets each event, seq being '' for the frames of a join.
   * onStatus(status, error) hears: live, idle, waiting (to come back), failed.
   */
  constructor(onEvent, onStatus) {
    this.#onEvent = onEvent;
    this.#onStatus = onStatus;
  }

  /** join follows a thread from what the server has. */
  join(threadId) {
    return this.#run(threadId, (signal) => connect(threadId, signal));
  }

  /** post follows the response of a request of its own, and the thread after it. */
  post(threadId, request) {
    return this.#run(threadId, request);
  }

  /** leave stops reading. What runs on the server goes on. */
  leave() {
    this.#stop?.abort();
    this.#stop = null;
  }

  async #run(threadId, request) {
    this.leave();
    const stop = new AbortController();
    this.#stop = stop;
    for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
      try {
        const response = await request(stop.signal);
        this.#tell(stop, 'live');
        pause = firstPause;
        if (await this.#read(response, stop)) return this.#tell(stop, 'idle');
      } catch (error) {
        if (stop.signal.aborted) return;
        // An HTTP answer will not get better by asking again; a broken line will.
        if (error.status && error.status < 500) return this.#tell(stop, 'failed', error);
      }
      this.#tell(stop, 'waiting');
      await sleep(pause, stop.signal);
      if (stop.signal.aborted) return;
      request = (signal) => connect(threadId, signal);
    }
  }

  // #read reports whether the stream ended as it should: after a Run's last event.
  async #read(response, stop) {
    let over = false;
    for await (const { id, data } of readEvents(response.body)) {
      if (stop.signal.aborted) return true;
      const event = JSON.parse(data);
      over = event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR';
      this.#onEvent(event, id);
    }
    return over;
  }

  #tell(stop, status, error) {
    if (!stop.signal.aborted) this.#onStatus(status, error);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
