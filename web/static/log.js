// The raw events with their seq, newest last, as the log keeps them.

import { el } from './dom.js';

const most = 500; // rows in the page at first; a button brings as many earlier ones
const perFrame = 60; // rows built in one frame

export class Log {
  #list;
  #count;
  #earlier;
  #entries = []; // all events; rows are only built for the newest
  #from = 0; // entries[from] has the first row
  #to = 0; // entries[to] has none yet
  #rows = most;
  #seen = 0; // highest seq: a join replays what the page may have had

  constructor(list, count, earlier) {
    this.#list = list;
    this.#count = count;
    this.#earlier = earlier;
    earlier.addEventListener('click', () => this.#showEarlier());
  }

  /** element is what scrolls. */
  get element() {
    return this.#list;
  }

  clear() {
    this.#seen = this.#from = this.#to = 0;
    this.#entries = [];
    this.#rows = most;
    this.#list.replaceChildren();
  }

  /** add keeps an event; draw shows it. */
  add(event, seq) {
    if (seq !== '' && Number(seq) <= this.#seen) return;
    if (seq !== '') this.#seen = Number(seq);
    this.#entries.push({ event, seq });
  }

  /** draw builds the rows that are due, and reports whether some are left for the next frame. */
  draw() {
    const end = this.#entries.length;
    const first = Math.max(0, end - this.#rows);
    while (this.#from < first && this.#list.firstElementChild) {
      this.#list.firstElementChild.remove();
      this.#from += 1;
    }
    this.#from = Math.max(this.#from, first); // rows that came and went between two frames
    this.#to = Math.max(this.#to, first);
    const until = Math.min(end, this.#to + perFrame);
    this.#list.append(...this.#entries.slice(this.#to, until).map(row));
    this.#to = until;
    this.#earlier.hidden = this.#from === 0;
    const count = this.#seen === 0 ? '' : `seq ${this.#seen}`;
    if (this.#count.textContent !== count) this.#count.textContent = count;
    return this.#to < end;
  }

  #showEarlier() {
    const from = Math.max(0, this.#from - most);
    this.#list.prepend(...this.#entries.slice(from, this.#from).map(row));
    this.#rows += this.#from - from;
    this.#from = from;
    this.#earlier.hidden = from === 0;
  }
}

// row shows an event's type; the rest of it is written when somebody opens it.
function row({ event, seq }) {
  const details = el('details', {}, el('summary', {}, event.type));
  details.addEventListener('toggle', () => {
    const { type, ...rest } = event;
    details.append(el('pre', { textContent: JSON.stringify(rest, null, 2) }));
  }, { once: true });
  return el('li', { dataset: { seq } }, el('span', { className: 'seq' }, seq || '·'), details);
}
