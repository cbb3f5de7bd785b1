// One thread, followed over at most one stream at a time. Whatever breaks the stream, the
// page comes back by joining: the server has every event, the page needs to remember none.

import { connect, eventsAfter, lastRun } from './api.js';
import { readEvents } from './sse.js';

const firstPause = 500; // ms before the first attempt to come back
const longestPause = 10_000;
const longestSlice = 10; // ms of reading events before the page may draw
const longestFrame = 200; // ms to wait for a frame, which may not come

export class Follower {
  #onEvent;
  #onStatus;
  #stop = null; // AbortController of the stream being read
  #bell = null; // AbortController of the stream that tells when something begins
  #seq = 0; // everything up to here has been seen, or is in what a join tells

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
    return this.#run(threadId, (signal) => this.#connect(threadId, signal));
  }

  /** post follows the response of a request of its own, and the thread after it. */
  post(threadId, request) {
    return this.#run(threadId, request);
  }

  /** leave stops reading. What runs on the server goes on. */
  leave() {
    this.#stop?.abort();
    this.#stop = null;
    this.#seq = 0;
    this.rest();
  }

  /** rest stops listening for what others begin: a browser has few connections to give. */
  rest() {
    this.#bell?.abort();
    this.#bell = null;
  }

  // #connect asks for the newest seq before it joins, so that nothing can begin unheard in
  // between; at worst a join is repeated.
  async #connect(threadId, signal) {
    const run = await lastRun(threadId);
    this.#seq = Math.max(this.#seq, run?.lastSeq ?? run?.firstSeq ?? 0);
    return connect(threadId, signal);
  }

  async #run(threadId, request) {
    this.#stop?.abort();
    this.rest();
    const stop = new AbortController();
    this.#stop = stop;
    for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
      try {
        const response = await request(stop.signal);
        this.#tell(stop, 'live');
        pause = firstPause;
        if (await this.#read(response, stop)) {
          this.#tell(stop, 'idle');
          return this.#listen(threadId, stop);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        // An HTTP answer will not get better by asking again; a broken line will.
        if (error.status && error.status < 500) return this.#tell(stop, 'failed', error);
      }
      this.#tell(stop, 'waiting');
      await sleep(pause, stop.signal);
      if (stop.signal.aborted) return;
      request = (signal) => this.#connect(threadId, signal);
    }
  }

  // #read reports whether the stream ended as it should: after a Run's last event.
  async #read(response, stop) {
    let over = false;
    let began = performance.now();
    for await (const { id, data } of readEvents(response.body)) {
      if (stop.signal.aborted) return true;
      if (performance.now() - began > longestSlice) {
        await turn();
        began = performance.now();
        if (stop.signal.aborted) return true;
      }
      const event = JSON.parse(data);
      over = event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR';
      if (id !== '') this.#seq = Math.max(this.#seq, Number(id));
      this.#onEvent(event, id);
    }
    return over;
  }

  // #listen waits for what begins without this page: an answer given elsewhere, a prompt in
  // another tab. The event itself is only a bell; joining then tells all of it. It reads with fetch: an EventSource can send
  // no header, and the ticket that it would need is used up when it comes back.
  async #listen(threadId, stop) {
    if (stop.signal.aborted || document.visibilityState === 'hidden') return undefined;
    const bell = new AbortController();
    this.#bell = bell;
    for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
      try {
        const response = await eventsAfter(threadId, this.#seq, bell.signal);
        pause = firstPause;
        const { done } = await readEvents(response.body).next();
        if (!done && !bell.signal.aborted) return this.join(threadId); // which ends this stream
      } catch (error) {
        if (bell.signal.aborted) return undefined;
        if (error.status && error.status < 500) return this.#tell(stop, 'failed', error);
      }
      await sleep(pause, bell.signal);
      if (bell.signal.aborted) return undefined;
    }
  }

  #tell(stop, status, error) {
    if (!stop.signal.aborted) this.#onStatus(status, error);
  }
}

// turn lets the browser take input and draw a frame: what is there of a stream is otherwise
// read in one go, however much it is. A page that is not seen has no frames.
function turn() {
  return new Promise((resolve) => {
    setTimeout(resolve, document.visibilityState === 'hidden' ? 0 : longestFrame);
    requestAnimationFrame(() => setTimeout(resolve));
  });
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
