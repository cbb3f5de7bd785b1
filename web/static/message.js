// One message of the talk: words, thoughts, tool calls, an activity, or a note.

import { el, pretty, reuse, setText, visible, words as plain } from './dom.js';
import { drawFiles } from './files.js';

/** messageBox makes the element a message is drawn in. */
export function messageBox(message) {
  const box = el('article', { className: `message ${message.role}` });
  if (message.role === 'reasoning') {
    box.append(el('details', { open: true }, el('summary', {}, 'Thoughts'), el('p', { className: 'words' })));
  } else if (message.role === 'activity') {
    box.append(el('h3'), el('div', { className: 'activity-body' }));
  } else {
    box.append(el('p', { className: 'words' }), el('p', { className: 'files', hidden: true }), el('div', { className: 'calls' }));
  }
  return box;
}

/**
 * drawMessage brings a box up to date, with the calls that changed. Calls that were drawn are
 * taken out of changed; those that isLate leaves there wait for the next frame. Questions
 * still open are left to the caller.
 */
export function drawMessage(box, message, { results, isOpenQuestion, changed, isLate }) {
  if (message.role === 'activity') return drawActivity(box, message);
  const words = box.querySelector('.words');
  setText(words, message.content);
  words.hidden = message.content === '';
  if (message.role === 'reasoning') {
    box.hidden = message.content === ''; // a join names thoughts before it replays them
    return;
  }
  if (message.files) drawFiles(box.querySelector('.files'), message.files);
  const calls = box.querySelector('.calls');
  for (const call of changed) {
    const item = reuse(calls, call.id, callBox);
    item.hidden = isOpenQuestion(call.id);
    drawCall(item, call, results.get(call.id));
    changed.delete(call);
    if (isLate()) return;
  }
}

function callBox() {
  return el('details', { className: 'call' },
    el('summary', {}, el('span', { className: 'mark' }), el('code', { className: 'name' }), el('span', { className: 'about' })),
    el('h4', {}, 'Arguments'), el('pre', { className: 'args' }),
    el('h4', { className: 'result-title' }, 'Result'), el('pre', { className: 'result' }));
}

function drawCall(box, call, result) {
  box.dataset.done = String(result !== undefined);
  setText(box.querySelector('.name'), call.name);
  setText(box.querySelector('.about'), titleOf(call.args));
  setText(box.querySelector('.args'), pretty(call.args));
  box.querySelector('.result-title').hidden = result === undefined;
  box.querySelector('.result').hidden = result === undefined;
  if (result !== undefined) setText(box.querySelector('.result'), pretty(result));
}

// titleOf is a question's title; other tools have none, and half-streamed arguments neither.
function titleOf(args) {
  try {
    const { title } = JSON.parse(args);
    return typeof title === 'string' ? title : '';
  } catch {
    return '';
  }
}

function drawActivity(box, message) {
  const content = message.content ?? {};
  setText(box.querySelector('h3'), titleWords(content.title) || titleWords(message.type) || 'Activity');
  const body = box.querySelector('.activity-body');
  const drawn = JSON.stringify(content);
  if (body.dataset.drawn === drawn) return;
  body.dataset.drawn = drawn;
  body.replaceChildren(Array.isArray(content.entries) ? planList(content.entries) : el('pre', {}, visible(JSON.stringify(content, null, 2))));
}

// titleWords is a title in one line of bounded length.
const longTitle = 200; // characters
const titleWords = (title) => visible(plain(title).slice(0, longTitle).replaceAll('\n', ' '));

function planList(entries) {
  const list = el('ul', { className: 'plan' });
  for (const entry of entries) {
    const item = el('li', {}, visible(plain(entry?.content ?? entry)));
    item.dataset.status = plain(entry?.status);
    list.append(item);
  }
  return list;
}
