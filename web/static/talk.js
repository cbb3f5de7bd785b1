// The middle of the page: the messages, the open questions after them, and how the Run is.

import { arrange, el, prune, reuse, setText } from './dom.js';
import { findCall } from './fold.js';
import { drawMessage, messageBox } from './message.js';
import { questionCard, questionWords } from './question.js';

const statusWords = { running: 'working', interrupt: 'waiting for you', cancelled: 'stopped', error: 'failed', finished: '' };

// How long a frame may build messages, in ms. What is left waits for the next frame: a burst
// of thousands of messages must not stop the page.
const frameBudget = 8;

export class Talk {
  #root;
  #list = el('div', { className: 'messages' });
  #questions = el('div', { className: 'questions' });
  #status = el('p', { className: 'run-status' });
  #problem = el('p', { className: 'problem', hidden: true });
  #answer;
  #announce;

  /** announce is the alert that tells a screen reader of questions. */
  constructor(root, announce, answer) {
    this.#root = root;
    this.#announce = announce;
    this.#answer = answer;
    this.#list.setAttribute('aria-live', 'polite');
    this.#problem.setAttribute('role', 'alert');
    root.append(this.#list, this.#questions, this.#problem, this.#status);
  }

  /** element is what scrolls. */
  get element() {
    return this.#root;
  }

  /** draw brings what changed up to date, and reports whether something is left for the next frame. */
  draw(thread) {
    const open = new Set(thread.interrupts.map((i) => i.toolCallId ?? i.id));
    const end = performance.now() + frameBudget;
    const isLate = () => performance.now() > end;
    if (thread.listChanged) prune(this.#list, thread.messages.map((m) => m.id));
    for (const message of thread.changed) {
      const changed = thread.changedCalls.get(message) ?? new Set();
      drawMessage(reuse(this.#list, message.id, () => messageBox(message)), message,
        { results: thread.results, isOpenQuestion: (id) => open.has(id), changed, isLate });
      if (changed.size === 0) {
        thread.changed.delete(message);
        thread.changedCalls.delete(message);
      }
      if (isLate()) break;
    }
    this.#drawStatus(thread);
    if (thread.changed.size > 0) return true;
    if (thread.listChanged) arrange(this.#list, thread.messages.map((m) => m.id));
    thread.listChanged = false;
    this.#drawQuestions(thread);
    return false;
  }

  #drawQuestions(thread) {
    const fresh = [];
    for (const interrupt of thread.interrupts) {
      reuse(this.#questions, interrupt.id, () => {
        const card = questionCard(interrupt, argsOf(thread, interrupt), this.#answer);
        fresh.push(questionWords(card));
        return card;
      });
    }
    arrange(this.#questions, thread.interrupts.map((i) => i.id));
    // Screen readers speak what is put into an alert that was there before. The card itself is
    // no alert: it would be read whole, buttons and all, and again when it changes.
    if (fresh.length > 0) this.#announce.textContent = fresh.join(' ');
    else if (thread.interrupts.length === 0 && this.#announce.textContent !== '') this.#announce.textContent = '';
  }

  #drawStatus(thread) {
    const status = thread.run?.status ?? '';
    this.#root.dataset.run = status;
    setText(this.#status, [statusWords[status] ?? status, ...thread.steps].filter(Boolean).join(' · '));
    setText(this.#problem, thread.problem);
    this.#problem.hidden = thread.problem === '';
  }
}

function argsOf(thread, interrupt) {
  try {
    return JSON.parse(findCall(thread, interrupt.toolCallId ?? interrupt.id)?.args ?? '{}');
  } catch {
    return {};
  }
}
