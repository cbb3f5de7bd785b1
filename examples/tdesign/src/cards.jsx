// The cards for tool calls and activities. Names are the agent's, except for
// request_permission: every permission comes under that one.

import { Button, Card, Space, Tag } from 'tdesign-react';

import { list, words } from './words.js';

const kinds = { allow_once: 'Allow once', allow_always: 'Allow always', reject_once: 'Reject', reject_always: 'Reject always' };

/** What a button does, by its kind; the agent's own label, which may say anything, stands behind. */
const named = (o) => (!kinds[o.kind] || kinds[o.kind] === o.label ? words(o.label) : `${kinds[o.kind]} (${words(o.label)})`);

/** A permission: what is to be done, and the options it may be answered with. */
function PermissionCard({ args, result, respond }) {
  const answered = result !== undefined;
  return (
    <Card bordered size="small" title={words(args.title)} actions={args.risk && <Tag>{words(args.risk)}</Tag>} className="question">
      <p><code>{words(args.tool)}</code></p>
      <pre>{words(args.args_text ?? JSON.stringify(args.args, null, 2))}</pre>
      {args.warnings && <p>Careful: {list(args.warnings).map(words).join(', ')}</p>}
      {answered ? <Answered result={result} /> : (
        <Space>
          {list(args.options).map((option) => (
            <Button
              key={option.id}
              theme={words(option.kind).startsWith('allow') ? 'primary' : 'default'}
              variant={option.kind === 'allow_once' ? 'base' : 'outline'}
              onClick={() => respond({ optionId: option.id })}
            >
              {named(option)}
            </Button>
          ))}
        </Space>
      )}
    </Card>
  );
}

/** A question with a few choices, as the travel planner of TDesign's guide asks it. */
function PreferencesCard({ args, result, respond }) {
  const choices = list(args.response_schema?.properties?.choice?.enum ?? args.options);
  return (
    <Card bordered size="small" title={words(args.title)} className="question">
      {result !== undefined ? <Answered result={result} /> : (
        <Space>
          {choices.map((choice) => (
            <Button key={words(choice)} variant="outline" onClick={() => respond({ choice })}>{words(choice)}</Button>
          ))}
        </Space>
      )}
    </Card>
  );
}

function Answered({ result }) {
  return <p className="answered">Answered: <code>{JSON.stringify(result)}</code></p>;
}

function WeatherCard({ args, result }) {
  return (
    <Card bordered size="small" title={`Weather in ${words(args.city)}`} className="weather">
      {result === undefined ? 'looking…' : `${words(result.temp)} °C`}
    </Card>
  );
}

function PlanCard({ content }) {
  return (
    <Card bordered size="small" title={words(content.title)} className="plan">
      <ul>{list(content.entries).map((entry, i) => <li key={i}><Tag size="small">{words(entry?.status)}</Tag> {words(entry?.content)}</li>)}</ul>
    </Card>
  );
}

function ChartCard({ content }) {
  return (
    <Card bordered size="small" title={words(content.title)} className="chart">
      {list(content.data).map((point) => words(point?.price)).join(' · ') || 'no data yet'}
    </Card>
  );
}

// Both lists are made once: the hooks take a new list for new registrations.
export const toolcalls = [
  { name: 'request_permission', description: 'Ask whether the agent may do something', component: PermissionCard },
  { name: 'collect_preferences', description: 'Ask what the traveller likes', component: PreferencesCard },
  { name: 'get_weather', description: 'Show the weather', component: WeatherCard },
];

export const activities = [
  { activityType: 'plan', description: 'A plan and how far it is', component: PlanCard },
  { activityType: 'stock-chart', description: 'Prices', component: ChartCard },
];
