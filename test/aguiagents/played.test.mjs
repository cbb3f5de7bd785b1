// The agents of played.mjs, one for each framework that npm has not.

import { compare, scenarios } from './scenarios.mjs';
import { styles } from './styles.mjs';

const plays = {
  chat: ['chat'],
  tool: ['a tool, twice', 'two tools at once', 'one tool after the other', 'a text and a call in one message', 'reload, and go on'],
  page: ['a tool of the page, twice', 'two tools of the page at once'],
  state: ['the state'],
  interrupt: ['an interrupt, approved', 'an interrupt, declined'],
  edited: ['an interrupt, with other arguments'],
  reasoned: ['an interrupt, declined with a reason'],
  regenerate: ['regenerate', 'edit'],
  texts: ['regenerate a text', 'edit a text'],
};

const style = styles[process.env.STYLE];
const names = style.plays.flatMap((kind) => plays[kind]);
const more = {
  'regenerate a text': async (p) => {
    for (const word of ['hello', 'again']) await p.say(word);
    p.back();
    await p.run();
    await p.say('bye');
  },
  'edit a text': async (p) => {
    for (const word of ['hello', 'again']) await p.say(word);
    p.back('and the message');
    for (const word of ['other', 'bye']) await p.say(word);
  },
  'an interrupt, declined': async (p) => {
    await p.say('email');
    await p.decides({ approved: false });
    await p.say('bye');
  },
  'an interrupt, with other arguments': async (p) => {
    await p.say('email');
    await p.decides({ approved: true, editedArgs: { to: 'bob@example.org' } });
    await p.say('bye');
  },
  'an interrupt, declined with a reason': async (p) => {
    await p.say('email');
    await p.decides({ approved: false, reason: 'Not today.' });
    await p.say('bye');
  },
};

compare({
  cannot: Object.fromEntries((style.cannot ?? []).flatMap((kind) => plays[kind]).map((name) => [name, /refused/])),
  all: Object.fromEntries(Object.entries({ ...scenarios, ...more }).filter(([name]) => names.includes(name))),
  loose: style.loose,
  person: { page: style.page },
});
