// The A2UI middleware (@ag-ui/a2ui-middleware) in front of the client: a surface that the model draws, and its button, which
// says all it says in forwardedProps.

import { A2UIMiddleware } from '@ag-ui/a2ui-middleware';
import { compare } from './scenarios.mjs';

const press = (p, name) => p.run({ forwardedProps: { a2uiAction: { userAction: { name, surfaceId: 's1', sourceComponentId: 'root', context: {} } } } });

compare({
  loose: ['a button on the surface that a reload brought'], // the middleware keeps its surfaces in the client
  person: { middleware: () => new A2UIMiddleware({ injectA2UITool: true }) },
  all: {
    'a surface': async (p) => {
      for (const word of ['surface', 'bye']) await p.say(word);
    },
    'a button, twice': async (p) => {
      await p.say('surface');
      await press(p, 'go');
      await press(p, 'go');
      await p.say('bye');
    },
    'a button on the surface that a reload brought': async (p) => {
      await p.say('surface');
      await p.reloads();
      await press(p, 'go');
      await p.say('bye');
    },
    'a tool of the page, and a button': async (p) => {
      await p.say('page');
      await p.shows();
      await press(p, 'go');
    },
    'regenerate': async (p) => {
      for (const word of ['hello', 'surface']) await p.say(word);
      p.back();
      await p.run();
      await p.say('bye');
    },
  },
});
