// What every chat must do, in its own words: a driver knows a page's buttons.

import assert from 'node:assert/strict';
import { test as nodeTest } from 'node:test';
import { inspect } from 'node:util';

import { until } from './lib/program.mjs';

let made = 0;
const newThread = () => `thread-${process.pid}-${made += 1}`;

const stops = 8; // a race that shows once in eight is seen
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==', 'base64');

/** matrix registers the cases, but those in `without`. driver() gives {world, open(threadId), restart?} once the tests run. */
export function matrix(driver, { without = [] } = {}) {
  const test = (name, ...rest) => {
    if (without.includes(name)) return;
    const run = rest.pop();
    nodeTest(name, ...rest, (t) => run(t).catch(async (error) => {
      throw new Error(`${error.stack}\n${inspect(error)}\n${await driver().world.state()}`); // for who reads of the failure
    }));
  };
  const open = (threadId = newThread()) => driver().open(threadId);
  const world = () => driver().world;

  test('chat', async () => {
    const chat = await open();
    await chat.send('say Hello there friend');
    await chat.shows('Hello there friend');
    await chat.idle();
    await chat.send('say Once more');
    await chat.shows('Once more');
    await chat.close();
  });

  for (const [button, kind] of [['Approve', 'allow_once'], ['Reject', 'reject_once']]) {
    test(`question: ${button}`, async () => {
      const chat = await open();
      await chat.send('ask');
      await chat.answer('Send the mail?', button);
      await chat.shows(`So: mail ${kind}.`);
      await chat.questionsAre(0);
      await chat.close();
    });
  }

  test('two questions', async () => {
    const chat = await open();
    await chat.send('asks');
    await chat.questionsAre(2);
    await chat.answer('Pay the bill?', 'Reject');
    await chat.answer('Send the mail?', 'Approve');
    await chat.shows('So: mail allow_once, pay reject_once.');
    await chat.questionsAre(0);
    await chat.close();
  });

  test('frontend tool', async () => {
    const chat = await open();
    await chat.send('color');
    await chat.shows(/The page said .*rgb\(1, 2, 3\)/);
    assert.equal(await chat.page.evaluate(() => document.body.style.getPropertyValue('--page')), 'rgb(1, 2, 3)');
    await chat.idle();
    await chat.close();
  });

  test('shared state: to the agent, back, and after a reload', async () => {
    const chat = await open();
    await chat.send('say Hi');
    await chat.shows('Hi');
    await chat.idle();
    for (let i = 1; i <= 3; i += 1) {
      await chat.page.locator('#count').click();
      await chat.counts(i);
    }
    await chat.send('count');
    await chat.shows('It was 3.');
    await chat.counts(13);
    await chat.idle();
    await chat.reload();
    await chat.counts(13);
    await chat.send('count again');
    await chat.shows('It was 13.');
    await chat.counts(23);
    await chat.close();
  });

  test('stop and go on', async () => {
    const chat = await open();
    for (let i = 1; i <= stops; i += 1) {
      const left = world().agent.left;
      await chat.send(`work ${i}`);
      await chat.shows('Working.', i);
      await chat.stop();
      await chat.send(`say Then number ${i}`);
      await chat.shows(`Then number ${i}`);
      await until('the agent is stopped', () => world().agent.left > left);
      await chat.idle();
    }
    await chat.close();
  });

  test('regenerate', async () => {
    const chat = await open();
    await chat.send('say Take one');
    await chat.shows('Take one');
    await chat.idle();
    const before = world().agent.prompts.length;
    await chat.regenerate();
    await until('the agent is asked again', () => world().agent.prompts.length === before + 1);
    assert.equal(world().agent.prompts.at(-1), 'say Take one');
    await chat.idle();
    await chat.isTranscript([['user', 'say Take one'], ['assistant', 'Take one']]);
    await chat.send('say And on');
    await chat.shows('And on');
    await chat.idle();
    const shown = await chat.transcript();
    await chat.reload();
    await chat.isTranscript(shown);
    await chat.close();
  });

  test('edit', async () => {
    const chat = await open();
    await chat.send('say Before it');
    await chat.shows('Before it');
    await chat.idle();
    await chat.send('say The typo');
    await chat.shows('The typo');
    await chat.idle();
    await chat.edit('say The correction');
    await chat.shows('The correction');
    await chat.idle();
    const shown = [['user', 'say Before it'], ['assistant', 'Before it'], ['user', 'say The correction'], ['assistant', 'The correction']];
    await chat.isTranscript(shown);
    await chat.reload();
    await chat.isTranscript(shown);
    await chat.close();
  });

  test('picture', async () => {
    const chat = await open();
    await chat.attach({ name: 'dot.png', mimeType: 'image/png', buffer: png });
    await chat.send('see this');
    await chat.shows('Pictures: 1.');
    await chat.idle();
    await chat.picturesAre(1);
    await chat.reload();
    await chat.shows('Pictures: 1.');
    await chat.picturesAre(1);
    await chat.send('see again');
    await chat.shows('Pictures: 1.', 2);
    await chat.close();
  });

  const beforeQuestion = 9; // frames of the story up to its question, and after the answer
  const afterAnswer = 4;

  /** tell plays the story; away is called once `cut` frames of it were sent. */
  async function tell(cut, away) {
    const id = `cut${cut}-${made += 1}`;
    const gate = world().agent.gate(id);
    const chat = await open();
    await chat.send(`story ${id}`);
    if (cut <= beforeQuestion) {
      gate.let(cut);
      await gate.at(cut);
      await away?.(chat, cut < beforeQuestion);
      gate.let();
    } else gate.let();
    await chat.answer('Go on with the story?', 'Approve', () => {
      if (cut > beforeQuestion) gate.open = 0;
    });
    if (cut > beforeQuestion) {
      gate.let(cut - beforeQuestion);
      await gate.at(cut);
      await away?.(chat, cut < beforeQuestion + afterAnswer);
      gate.let();
    }
    await chat.shows('The end.');
    await chat.counts(9);
    await chat.idle();
    const shown = JSON.stringify(await chat.transcript()).replaceAll(id, 'ID');
    await chat.close();
    return shown;
  }

  test('reload at every cut point', { timeout: 300_000 }, async () => {
    const whole = await tell(beforeQuestion + afterAnswer);
    assert.match(whole, /Once upon.*a time\..*You said allow_once.*The end\./);
    const cuts = Array.from({ length: beforeQuestion + afterAnswer + 1 }, (_, i) => i);
    await inParallel(3, cuts, async (cut) => {
      const shown = await tell(cut, (chat) => chat.reload()).catch((error) => `${error}`);
      assert.equal(shown, whole, `reloaded after ${cut} frames`);
    });
  });

  test('a second page in the third Turn, at every cut point: the order is that of the log', { timeout: 300_000 }, async () => {
    const threadId = newThread();
    const gate = world().agent.gate(threadId);
    const chat = await open(threadId);
    const order = [];
    for (const words of ['First of all', 'Second of all']) {
      await chat.send(`say ${words}`);
      await chat.shows(words);
      await chat.idle();
      order.push(['user', `say ${words}`], ['assistant', words]);
    }
    await chat.send(`story ${threadId}`);
    order.push(['user', `story ${threadId}`]);
    for (let cut = 0; cut <= beforeQuestion + afterAnswer; cut += 1) {
      await gate.at(cut);
      const other = await open(threadId);
      let shown;
      await until('the order of the log', async () => {
        shown = await other.transcript();
        return JSON.stringify(shown.slice(0, order.length)) === JSON.stringify(order) && shown.slice(order.length).every(([role]) => role === 'assistant');
      }, 10_000).catch(() => assert.deepEqual(shown, order, `joined after ${cut} frames`));
      await other.close();
      if (cut === beforeQuestion) await chat.answer('Go on with the story?', 'Approve');
      gate.let(1);
    }
    await chat.shows('The end.');
    await chat.idle();
    await chat.close();
  });

  test('killed in mid-answer, started again, and on', async () => {
    const chat = await open();
    const gate = world().agent.gate('killed');
    gate.let(3);
    await chat.send('say killed two three four');
    await chat.shows('killed two three');
    await world().kill();
    await chat.idle();
    chat.forgiveBrokenConnection();
    gate.let();
    await chat.send('say Still here');
    await chat.shows('Still here');
    await chat.idle();
    await chat.reload();
    await chat.shows('killed two three');
    await chat.shows('Still here');
    await chat.close();
  });

  test('an open question outlives Aqueduct, and can still be clicked', async () => {
    const chat = await open();
    await chat.send('ask');
    await chat.questionsAre(1);
    await world().kill();
    await driver().restart?.();
    chat.forgiveBrokenConnection(); // a question is shown before the response that brought it has ended
    await chat.reload();
    await chat.answer('Send the mail?', 'Approve');
    await chat.shows('So: mail allow_once.');
    await chat.close();
  });
}

async function inParallel(n, items, work) {
  const rest = [...items];
  await Promise.all(Array.from({ length: n }, async () => {
    while (rest.length) await work(rest.shift());
  }));
}
