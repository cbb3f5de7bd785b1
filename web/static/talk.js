// The middle of the page: the messages, the open questions after them, and how the Run is.

import { arrange, el, reuse, setText } from './dom.js';
import { findCall } from './fold.js';
import { drawMessage, messageBox } from './message.js';
import { questionCard } from './question.js';

const statusWords = { running: 'working', interrupt: 'waiting for you', cancelled: 'stopped', error: 'failed', finished: '' };

export class Talk {
  #root;
  #list = el('div', { className: 'messages' });
  #questions = el('div', { className: 'questions' });
  #status = el('p', { className: 'run-status' });
  #problem = el('p', { className: 'problem', hidden: true });
  #answer;

  constructor(root, answer) {
    this.#root = root;
    this.#answer = answer;
    this.#list.setAttribute('aria-live', 'polite');
    this.#problem.setAttribute('role', 'alert');
    root.append(this.#list, this.#questions, this.#problem, this.#status);
  }

  /** draw brings everything up to date, and stays at the end if the reader was there. */
  draw(thread) {
    const atEnd = this.#root.scrollHeight - this.#root.scrollTop - this.#root.clientHeight < 60;
    const open = new Set(thread.interrupts.map((i) => i.toolCallId ?? i.id));
    for (const message of thread.messages) {
      drawMessage(reuse(this.#list, message.id, () => messageBox(message)), message, thread.results, (id) => open.has(id));
    }
    arrange(this.#list, thread.messages.map((m) => m.id));
    this.#drawQuestions(thread);
    this.#drawStatus(thread);
    if (atEnd) this.#root.scrollTop = this.#root.scrollHeight;
  }

  #drawQuestions(thread) {
    for (const interrupt of thread.interrupts) {
      reuse(this.#questions, interrupt.id, () => questionCard(interrupt, argsOf(thread, interrupt), this.#answer));
    }
    arrange(this.#questions, thread.interrupts.map((i) => i.id));
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
