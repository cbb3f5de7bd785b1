// The raw events with their seq, newest last, as the log keeps them.

import { el } from './dom.js';

const most = 500; // rows kept in the page; the log itself keeps all

export class Log {
  #list;
  #count;
  #seen = 0; // highest seq shown: a join replays what the page may have had

  constructor(list, count) {
    this.#list = list;
    this.#count = count;
  }

  clear() {
    this.#seen = 0;
    this.#list.replaceChildren();
    this.#count.textContent = '';
  }

  add(event, seq) {
    if (seq !== '' && Number(seq) <= this.#seen) return;
    if (seq !== '') this.#seen = Number(seq);
    const { type, ...rest } = event;
    const atEnd = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 60;
    this.#list.append(el('li', { dataset: { seq } },
      el('span', { className: 'seq' }, seq || '·'), el('details', {}, el('summary', {}, type),
        el('pre', { textContent: JSON.stringify(rest, null, 2) }))));
    if (this.#list.children.length > most) this.#list.firstElementChild.remove();
    this.#count.textContent = this.#seen === 0 ? '' : `seq ${this.#seen}`;
    if (atEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }
}
