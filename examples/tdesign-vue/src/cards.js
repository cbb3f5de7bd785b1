// The cards for tool calls and activities. Names are the agent's, except for
// request_permission: every permission comes under that one. What an agent may choose goes through words: to h, an object in place
// of children is properties, innerHTML among them.

import { h } from 'vue';

import { list, words } from './words.js';

const props = ['args', 'result', 'respond', 'status', 'content'];
const answered = (result) => h('p', ['Answered: ', h('code', JSON.stringify(result))]);
const button = (label, onClick) => h('button', { type: 'button', onClick }, words(label));

const kinds = { allow_once: 'Allow once', allow_always: 'Allow always', reject_once: 'Reject', reject_always: 'Reject always' };

/** What a button does, by its kind; the agent's own label, which may say anything, stands behind. */
const named = (o) => (!kinds[o.kind] || kinds[o.kind] === o.label ? words(o.label) : `${kinds[o.kind]} (${words(o.label)})`);

/** A permission: what is to be done, and the options it may be answered with. */
const PermissionCard = ({ args, result, respond }) => h('div', { class: 'card' }, [
  h('strong', words(args.title)), h('p', h('code', words(args.tool))), h('pre', words(args.args_text ?? JSON.stringify(args.args, null, 2))),
  args.warnings ? h('p', `Careful: ${list(args.warnings).map(words).join(', ')}`) : null,
  result !== undefined ? answered(result) : list(args.options).map((o) => button(named(o), () => respond({ optionId: o.id }))),
]);

/** A question with a few choices. */
const PreferencesCard = ({ args, result, respond }) => h('div', { class: 'card' }, [
  h('strong', words(args.title)),
  result !== undefined ? answered(result)
    : list(args.response_schema?.properties?.choice?.enum ?? args.options).map((choice) => button(choice, () => respond({ choice }))),
]);

/** A tool of this page: the agent calls it, the person runs it. */
const ColorCard = ({ result, respond }) => h('div', { class: 'card' }, [
  h('strong', 'Which color?'),
  result !== undefined ? answered(result) : ['teal', 'amber'].map((color) => button(color, () => respond(color))),
]);

const WeatherCard = ({ args, result }) => h('div', { class: 'card' }, [
  h('strong', `Weather in ${words(args.city)}`), h('p', result === undefined ? 'looking…' : `${words(result.temp)} °C`),
]);

const PlanCard = ({ content }) => h('div', { class: 'card plan' }, [
  h('strong', words(content.title)), h('ul', list(content.entries).map((e) => h('li', `${words(e?.status)}: ${words(e?.content)}`))),
]);

const ChartCard = ({ content }) => h('div', { class: 'card chart' }, [
  h('strong', words(content.title)), h('p', list(content.data).map((point) => words(point?.price)).join(' · ') || 'no data yet'),
]);

for (const card of [PermissionCard, PreferencesCard, ColorCard, WeatherCard, PlanCard, ChartCard]) card.props = props;

/** tools are those that this page offers to the agent. */
export const tools = [
  { name: 'pick_color', description: 'Has the person pick a color', parameters: { type: 'object', properties: {} } },
];

export const toolcalls = [
  { name: 'request_permission', description: 'Ask whether the agent may do something', component: PermissionCard },
  { name: 'collect_preferences', description: 'Ask what the traveller likes', component: PreferencesCard },
  { name: 'pick_color', description: 'Pick a color', component: ColorCard },
  { name: 'get_weather', description: 'Show the weather', component: WeatherCard },
];

export const activities = [
  { activityType: 'plan', description: 'A plan and how far it is', component: PlanCard },
  { activityType: 'stock-chart', description: 'Prices', component: ChartCard },
];
