// Two questions are open and the agent talks on. They are answered one by one, over REST and in
// the chat; whoever leaves at any point and comes back has what the thread has.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { atRest, decide, newId, openApprovals, post, until } from './lib/server.mjs';
import { cutAfter, frames } from './lib/stream.mjs';
import { fetch } from './lib/token.mjs';

const words = Array.from({ length: 40 }, (_, i) => `w${i + 1} `).join('');
const once = { optionId: 'once' };

/** said is all the assistant's words of a thread, in order. */
function said(talk) {
  return talk.agent.messages.filter((m) => m.role === 'assistant').map((m) => m.content ?? '').join('');
}

/** comeBack is a fresh page on the thread, with nothing or with what the old page had. */
function comeBack(left, kept, options) {
  return new Talk(left.client, { threadId: left.threadId, messages: kept ? structuredClone(left.agent.messages) : [], ...options });
}

/**
 * backToOne is comeBack at a thread with one question left, read to the end of a Run that lists it. A Run whose end was
 * on its way when the other was decided may list both; the next one does not.
 */
async function backToOne(left, kept, id) {
  for (let tries = 1; ; tries += 1) {
    const back = comeBack(left, kept);
    const run = await back.join();
    assert.equal(run.last.outcome?.type, 'interrupt', JSON.stringify(run.last));
    const open = run.last.outcome.interrupts.map((i) => i.id);
    if (open.length === 2 && tries === 1) continue;
    assert.deepEqual(open, [id]);
    return { back, run };
  }
}

/** bothAsked gives the ids of the two questions as soon as they are open. */
async function bothAsked(threadId) {
  const open = await until('both questions are open', async () => {
    const known = await fetch(`${process.env.BASE_URL}/api/threads/${threadId}`);
    if (!known.ok) return false;
    const all = await openApprovals(threadId);
    return all.length === 2 && all;
  });
  const of = (tool) => open.find((a) => a.tool_name === tool).approval_id;
  return [of('send_mail'), of('pay_invoice')];
}

/** approve decides over REST. */
async function approve(id) {
  const { status, body } = await decide(id, { option_id: 'once' });
  assert.equal(status, 200, JSON.stringify(body));
}

/** resume answers one of several in the chat, which the official clients refuse to do. */
async function resume(client, threadId, id) {
  const events = await frames(await post('/api/agui/chat', {
    threadId, runId: newId('run'), ...(client.version === 1 && { protocolVersion: '1.0' }),
    messages: [], tools: [], context: [], state: {}, forwardedProps: {},
    resume: [{ interruptId: id, status: 'resolved', payload: once }],
  }));
  assert.equal(events.at(-1).event.type, 'RUN_FINISHED', JSON.stringify(events.at(-1)));
}

/**
 * byId is a page's messages by their ids. A page that was away while a Run passed, and then took part in the next one,
 * gets what it missed at its next join, and these clients put it behind what they have: only a reload is in order.
 */
function byId(talk) {
  assert.equal(new Set(talk.agent.messages.map((m) => m.id)).size, talk.agent.messages.length, 'a message twice');
  const plain = ({ id, role, content, toolCalls, toolCallId }) => [id, { role, content, toolCalls, toolCallId }];
  return Object.fromEntries(talk.agent.messages.map(plain).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** whole checks that a reload has all of the thread: each word once and in order, both questions and what became of them. */
async function whole(talk, where) {
  await atRest(talk.threadId);
  const fresh = comeBack(talk, false);
  finishedWell(await fresh.join());
  const text = said(fresh);
  assert.ok(text.includes(words) && text.split('w1 ').length === 2, `${where}: the thread has ${text}`);
  assert.match(text, /took care of the mail.*took care of the invoice/, where);
  assert.equal(fresh.calls('request_permission').length, 2, where);
  for (const call of fresh.calls('request_permission')) assert.ok(fresh.result(call.id), `${where}: no result`);
  finishedWell(await talk.join());
  assert.deepEqual(byId(talk), byId(fresh), where);
  assert.deepEqual(talk.agent.state, fresh.agent.state, where);
}

for (const client of clients) {
  describe(client.name, { concurrency: 24 }, async () => {
    after(noComplaints);

    // How many events each response has, about: where a Run ends while the agent talks is a matter of time.
    const lengths = await (async () => {
      const talk = new Talk(client);
      const first = await talk.say('hold');
      const [mail, pay] = asked(first, 2).map((q) => q.id);
      await approve(mail);
      const { back, run: second } = await backToOne(talk, false, pay);
      const third = await back.answer([pay, once]);
      finishedWell(third);
      await whole(back, 'undisturbed');
      return { first: first.events.length, second: second.events.length, third: third.events.length };
    })();

    const ways = { REST: (_, __, id) => approve(id), resume };
    for (const [way, settle] of Object.entries(ways)) {
      for (const order of [0, 1]) {
        test(`answered one by one, by ${way}, the ${order ? 'second' : 'first'} first`, async () => {
          const talk = new Talk(client);
          const prompt = talk.say('hold');
          const ids = await bothAsked(talk.threadId);
          await settle(client, talk.threadId, ids[order]);
          const [left] = await openApprovals(talk.threadId);
          assert.equal(left.approval_id, ids[1 - order], 'the other is open still');
          await prompt;
          await settle(client, talk.threadId, ids[1 - order]);
          await whole(comeBack(talk, true), 'at the end');
        });
      }
    }

    // Each cut is come back from in one of the two ways, in turns; join.test.mjs has every cut both ways.
    for (const kept of [false, true]) {
      const how = kept ? 'with what it had' : 'with nothing';

      for (let k = Number(kept); k <= lengths.first; k += 2) {
        test(`left after event ${k} of the Run that asks, back ${how}`, async () => {
          const left = new Talk(client, { fetch: cutAfter(k) });
          await left.say('hold');
          const [mail, pay] = await bothAsked(left.threadId);
          await approve(mail);
          const { back } = await backToOne(left, kept, pay);
          finishedWell(await back.answer([pay, once]));
          await whole(back, 'at the end');
        });
      }

      for (let k = Number(kept); k <= lengths.second; k += 2) {
        test(`left after event ${k} of the Run with the first answer, back ${how}`, async () => {
          const talk = new Talk(client);
          const [mail, pay] = asked(await talk.say('hold'), 2).map((q) => q.id);
          await approve(mail);
          const left = comeBack(talk, true, { fetch: cutAfter(k) });
          await left.join();
          const { back } = await backToOne(left, kept, pay);
          finishedWell(await back.answer([pay, once]));
          await whole(back, 'at the end');
        });
      }

      for (let k = Number(kept); k <= lengths.third; k += 2) {
        test(`left after event ${k} of the Run with the second answer, back ${how}`, async () => {
          const talk = new Talk(client);
          const [mail, pay] = asked(await talk.say('hold'), 2).map((q) => q.id);
          await approve(mail);
          const { back: left } = await backToOne(talk, false, pay);
          left.agent.fetch = cutAfter(k);
          await left.answer([pay, once]);
          const back = comeBack(left, kept);
          finishedWell(await back.join());
          await whole(back, 'at the end');
        });
      }
    }
  });
}
