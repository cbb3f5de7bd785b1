// The picker of the agent that a new thread is for. ?agent= of the page's address picks one at the start.

import { el } from './dom.js';

/**
 * drawAgents fills the picker; the server's default comes first. It gives the picked id where no agent has it, else ''. That
 * one stays picked: the default must not answer what was meant for another agent.
 */
export function drawAgents(select, agents) {
  const picked = pickedAgent(select);
  const unknown = picked !== '' && !agents.some((agent) => agent.agent_id === picked);
  const options = agents.map((agent) => el('option', {
    value: agent.agent_id,
    textContent: agent.status === 'offline' || agent.status === 'failing' ? `${agent.name} (${agent.status})` : agent.name,
    title: agent.reason ?? agent.capabilities?.identity?.description ?? '',
  }));
  if (unknown) options.push(el('option', { value: picked, textContent: `${picked} (unknown)` }));
  select.replaceChildren(el('option', { value: '', textContent: 'Default agent' }), ...options);
  select.value = picked;
  return unknown ? picked : '';
}

/** drawUnconfined names the agents that could approve for themselves, and is hidden where there is none. */
export function drawUnconfined(note, agents) {
  const names = agents.filter((agent) => agent.unconfined).map((agent) => agent.name);
  note.hidden = names.length === 0;
  note.textContent = names.length === 1 ? `${names[0]}: this agent could approve for itself. The server was started with --unconfined.`
    : `${names.join(', ')}: each of these agents could approve for itself. The server was started with --unconfined.`;
}

/** agentWarnings are sentences about agents that people should know before they use them. */
export function agentWarnings(agents) {
  return agents.filter((agent) => agent.warnings?.includes('shared_workspaces'))
    .map((agent) => `${agent.name} can reach the folders of other threads.`);
}

/** canPick: with one agent there is nothing to pick. */
export function canPick(select) {
  return select.options.length > 2;
}

/** pickedAgent is the id of the agent for a new thread; '' is the server's default. */
export function pickedAgent(select) {
  return select.options.length > 0 ? select.value : new URLSearchParams(location.search).get('agent') ?? '';
}
