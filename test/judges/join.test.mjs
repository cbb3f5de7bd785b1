// Reload at every point of the travel example: whoever comes back ends with the same
// picture as somebody who never left.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { cutAfter } from './lib/stream.mjs';

const choice = { choice: '舒适型' };

/** undisturbed plays the example without a break, and counts the events of both Runs. */
async function undisturbed(client) {
  const talk = new Talk(client);
  const first = await talk.say('all');
  const [question] = asked(first, 1);
  const paused = talk.picture;
  const second = await talk.answer([question.id, choice]);
  finishedWell(second);
  return { paused, done: talk.picture, firstEvents: first.events.length, secondEvents: second.events.length };
}

/** leaveFirst leaves after k events of the first Run. */
async function leaveFirst(client, k) {
  const talk = new Talk(client, { fetch: cutAfter(k) });
  await talk.say('all');
  return talk;
}

/** leaveSecond answers the question and leaves after k events of what follows. */
async function leaveSecond(client, k) {
  const whole = new Talk(client);
  const [question] = asked(await whole.say('all'), 1);
  whole.agent.fetch = cutAfter(k);
  await whole.answer([question.id, choice]);
  return whole;
}

/** comeBack is a fresh page on the thread, with nothing or with what the old page had. */
function comeBack(client, left, kept) {
  return new Talk(client, { threadId: left.threadId, messages: kept ? structuredClone(left.agent.messages) : [] });
}

/** same compares pictures; a client that kept activities keeps them in their old place. */
function same(got, want, kept, where) {
  const order = (p) => (kept ? { ...p, messages: renumbered(p.messages.toSorted(byKind)) } : p);
  assert.deepEqual(order(got), order(want), where);
}

function byKind(a, b) {
  return (a.role === 'activity') - (b.role === 'activity');
}

// renumbered gives ids by the order after sorting.
function renumbered(messages) {
  const numbers = new Map();
  const number = (id) => numbers.get(id) ?? numbers.set(id, `#${numbers.size}`).get(id);
  return messages.map((m) => ({
    ...m,
    ...(m.calls && { calls: m.calls.map((c) => ({ ...c, id: number(c.id) })) }),
    ...(m.answers && { answers: number(m.answers) }),
    id: number(m.id),
  }));
}

for (const client of clients) {
  describe(client.name, { concurrency: 4 }, async () => {
    const want = await undisturbed(client);
    after(noComplaints);

    for (const kept of [false, true]) {
      const how = kept ? 'with what it had' : 'with nothing';

      for (let k = 0; k <= want.firstEvents; k += 1) {
        test(`left after event ${k} of the first Run, back ${how}`, async () => {
          const left = await leaveFirst(client, k);
          const back = comeBack(client, left, kept);
          const [question] = asked(await back.join(), 1);
          same(back.picture, want.paused, kept, 'at the question');
          finishedWell(await back.answer([question.id, choice]));
          same(back.picture, want.done, kept, 'at the end');
        });
      }

      for (let k = 0; k <= want.secondEvents; k += 1) {
        test(`left after event ${k} of the second Run, back ${how}`, async () => {
          const left = await leaveSecond(client, k);
          const back = comeBack(client, left, kept);
          finishedWell(await back.join());
          same(back.picture, want.done, kept, 'at the end');
        });
      }
    }

    test('two tabs at once see the same', async () => {
      const one = new Talk(client);
      const first = one.say('all');
      const two = new Talk(client, { threadId: one.threadId });
      const [question] = asked(await first, 1);
      asked(await two.join(), 1);
      same(two.picture, want.paused, false, 'second tab');
      finishedWell(await one.answer([question.id, choice]));
      // The client lets nobody run on while it knows of an open question, so the tab that
      // did not answer comes to the end by an answer of its own, which is late.
      finishedWell(await two.answer([question.id, choice]));
      same(two.picture, want.done, true, 'second tab, after the answer'); // it keeps what it had where it was
    });

    test('the next turn after a return goes on from the whole history', async () => {
      const left = await leaveFirst(client, 3);
      const back = comeBack(client, left, false);
      const [question] = asked(await back.join(), 1);
      finishedWell(await back.answer([question.id, choice]));
      finishedWell(await back.say('text'));
      assert.equal(back.agent.messages.filter((m) => m.role === 'user').length, 2);
    });
  });
}
