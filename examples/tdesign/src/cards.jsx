// The cards for tool calls and activities. Names are the agent's, except for
// request_permission: every permission comes under that one.

import { Button, Card, Space, Tag } from 'tdesign-react';

const kinds = { allow_once: 'Allow once', allow_always: 'Allow always', reject_once: 'Reject', reject_always: 'Reject always' };

/** What a button does, by its kind; the agent's own label, which may say anything, stands behind. */
const named = (o) => (!kinds[o.kind] || kinds[o.kind] === o.label ? o.label : `${kinds[o.kind]} (${o.label})`);

/** A permission: what is to be done, and the options it may be answered with. */
function PermissionCard({ args, result, respond }) {
  const answered = result !== undefined;
  return (
    <Card bordered size="small" title={args.title} actions={args.risk && <Tag>{args.risk}</Tag>} className="question">
      <p><code>{args.tool}</code></p>
      <pre>{args.args_text ?? JSON.stringify(args.args, null, 2)}</pre>
      {args.warnings && <p>Careful: {args.warnings.join(', ')}</p>}
      {answered ? <Answered result={result} /> : (
        <Space>
          {(args.options ?? []).map((option) => (
            <Button
              key={option.id}
              theme={option.kind.startsWith('allow') ? 'primary' : 'default'}
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
  const choices = args.response_schema?.properties?.choice?.enum ?? args.options ?? [];
  return (
    <Card bordered size="small" title={args.title} className="question">
      {result !== undefined ? <Answered result={result} /> : (
        <Space>
          {choices.map((choice) => (
            <Button key={choice} variant="outline" onClick={() => respond({ choice })}>{choice}</Button>
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
    <Card bordered size="small" title={`Weather in ${args.city}`} className="weather">
      {result === undefined ? 'looking…' : `${result.temp} °C`}
    </Card>
  );
}

function PlanCard({ content }) {
  return (
    <Card bordered size="small" title={content.title} className="plan">
      <ul>{(content.entries ?? []).map((entry, i) => <li key={i}><Tag size="small">{entry.status}</Tag> {entry.content}</li>)}</ul>
    </Card>
  );
}

function ChartCard({ content }) {
  return (
    <Card bordered size="small" title={content.title} className="chart">
      {(content.data ?? []).map((point) => point.price).join(' · ') || 'no data yet'}
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
