// Puts the page together: which thread is open is in the address after '#', everything
// else comes from the server.

import { agentWarnings, canPick, drawAgents, drawUnconfined, pickedAgent } from './agents.js';
import { cancelRun, chat, lastEvents, listAgents, listThreads, newId, onSignedOut } from './api.js';
import { setText } from './dom.js';
import { addMessage, emptyThread, fold } from './fold.js';
import { Follower } from './follow.js';
import { Log } from './log.js';
import { Talk } from './talk.js';
import { drawThreads } from './threads.js';
import { showWho, takeSignInProblem } from './signin.js';
import { askToken, hasSignInLink, showProblem, signInByLink } from './token.js';

const $ = (id) => document.getElementById(id);

const talk = new Talk($('talk'), $('announce'), answer);
const log = new Log($('events'), $('seq'), $('earlier'));
const follower = new Follower(onEvent, onStatus);

let threadId = '';
let thread = emptyThread();
let threads = [];
let frame = 0;
let drawnState; // that the page shows
let unsent = ''; // what was typed last, until the server has taken it

function onEvent(event, seq) {
  fold(thread, event);
  log.add(event, seq);
  if (event.type === 'RUN_STARTED' || event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR') refreshThreads();
  draw();
}

function onStatus(status, error) {
  $('connection').dataset.status = status;
  $('connection').title = { live: 'connected', idle: 'nothing running', waiting: 'connection lost, coming back', failed: 'refused' }[status];
  if (status === 'live') unsent = '';
  if (!error) return;
  if (error.status === 401 && !$('prompt').value) $('prompt').value = unsent; // the person did not sign in
  thread.problem = error.message;
  if (thread.run?.status === 'running') thread.run = null;
  draw();
}

// draw waits for the next frame: a flood of events is drawn once, not once each. A frame reads
// where the reader is, then writes, then scrolls: a read between two writes would make the
// browser lay out the page for each.
function draw() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    const followed = [talk.element, log.element].filter(isAtEnd);
    const later = [talk.draw(thread), log.draw()];
    if (thread.state !== drawnState || thread.state === undefined) {
      drawnState = thread.state;
      setText($('state'), thread.state === undefined ? 'none yet' : JSON.stringify(thread.state, null, 2));
    }
    $('agent').hidden = Boolean(thread.run?.id) || !canPick($('agent'));
    $('stop').hidden = thread.run?.status !== 'running';
    $('empty').hidden = thread.messages.length > 0;
    for (const element of followed) element.scrollTop = element.scrollHeight;
    if (later.includes(true)) draw();
  });
}

function isAtEnd(element) {
  return element.scrollHeight - element.scrollTop - element.clientHeight < 60;
}

async function refreshThreads() {
  try {
    threads = await listThreads();
  } catch {
    return; // the list can wait; the talk tells of trouble
  }
  drawThreads($('threads'), threads, threadId);
  if (!$('agent').options.length) refreshAgents();
}

async function refreshAgents() {
  try {
    const agents = await listAgents();
    const unknown = drawAgents($('agent'), agents);
    drawUnconfined($('unconfined'), agents);
    const warnings = agentWarnings(agents);
    $('warnings').hidden = warnings.length === 0;
    setText($('warnings'), warnings.join(' '));
    if (unknown && !thread.run?.id) thread.problem = `There is no agent "${unknown}" here. Pick another one, or leave ?agent= out of the address.`;
  } catch {
    return; // without the list a thread begins with the default
  }
  draw();
}

function open(id) {
  follower.leave();
  threadId = id;
  thread = emptyThread();
  log.clear();
  drawThreads($('threads'), threads, threadId);
  $('connection').dataset.status = 'idle';
  draw();
  if (!id) {
    if ($('agent').options.length) refreshAgents();
    return;
  }
  follower.join(id);
  showPast(id);
}

// showPast lists what the newest Run said, for a page that was not there to hear it.
async function showPast(id) {
  try {
    const events = await lastEvents(id);
    if (id !== threadId) return;
    for (const { seq, event } of events) log.add(event, String(seq));
    draw();
  } catch {
    // the talk itself tells what is wrong
  }
}

function send(text) {
  if (!threadId) {
    threadId = newId();
    history.replaceState(null, '', `#${threadId}`);
  }
  const message = { id: newId(), role: 'user', content: text };
  addMessage(thread, message);
  post({ messages: [message] });
}

function answer(entry) {
  post({ resume: [entry] });
}

function post(input) {
  // What is picked is for threads that begin here; others have their agent.
  const agent = thread.run?.id ? '' : pickedAgent($('agent'));
  thread.problem = '';
  thread.run = { id: thread.run?.id, status: 'running' };
  draw();
  const id = threadId;
  follower.post(id, (signal) => chat({ threadId: id, ...input }, signal, agent));
}

$('prompt').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('compose').requestSubmit();
});

$('compose').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = $('prompt').value.trim();
  if (!text) return;
  $('prompt').value = '';
  unsent = text;
  send(text);
});

$('stop').addEventListener('click', () => {
  if (!thread.run?.id) return;
  cancelRun(thread.run.id).catch((error) => {
    thread.problem = error.message;
    draw();
  });
});

$('new').addEventListener('click', () => {
  location.hash = '';
  $('prompt').focus();
});

window.addEventListener('hashchange', enter);

// A tab nobody looks at listens to nothing; it joins again when it is looked at.
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') follower.rest();
  else if (threadId && $('connection').dataset.status === 'idle') follower.join(threadId);
});

// enter opens the thread in the address; a sign-in link has none.
async function enter() {
  if (hasSignInLink()) {
    await signInByLink($('token'));
    begin();
  }
  const problem = takeSignInProblem();
  if (problem) showProblem($('token'), problem);
  open(decodeURIComponent(location.hash.slice(1)));
}

function begin() {
  showWho($('who'), $('signout'));
  refreshThreads();
}

onSignedOut(() => askToken($('token')));
if (!hasSignInLink()) begin();
enter();
