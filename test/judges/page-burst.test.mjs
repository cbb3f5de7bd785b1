// The page at "/" while very much comes at once.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './lib/chromium.mjs';
import { base } from './lib/server.mjs';

const longestFrame = 200; // ms between two frames
const events = 20_000;

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/**
 * watchFrames marks each frame in the page, and traces what its thread does. The time that
 * the thread has worked between two frames is the page's own doing: on a machine with other
 * work the clock between two frames also holds what others did meanwhile.
 */
async function watchFrames(page, work) {
  await page.evaluate(() => {
    let last = performance.now();
    globalThis.longestGap = 0;
    const frame = () => {
      performance.mark('judge-frame');
      const now = performance.now();
      globalThis.longestGap = Math.max(globalThis.longestGap, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await browser.startTracing(page, { categories: ['toplevel', 'blink.user_timing'] });
  let traced;
  try {
    await work();
  } finally {
    traced = await browser.stopTracing();
  }
  const trace = JSON.parse(traced);
  const marks = trace.traceEvents.filter((e) => e.name === 'judge-frame').sort((a, b) => a.ts - b.ts);
  assert.ok(marks.length > 5, `only ${marks.length} frames`);
  const { pid, tid } = marks[0];
  const tasks = trace.traceEvents.filter((e) => e.pid === pid && e.tid === tid && e.ph === 'X' && e.tdur !== undefined && e.name.includes('RunTask'));
  assert.ok(tasks.length > marks.length / 2, `only ${tasks.length} tasks`);
  return {
    frames: marks.length,
    busiest: Math.max(...gaps(marks, tasks)) / 1000,
    gap: await page.evaluate(() => globalThis.longestGap),
  };
}

// gaps gives the processor time of the thread's tasks from each frame to the next, in µs.
function gaps(marks, tasks) {
  tasks.sort((a, b) => a.ts - b.ts);
  const busy = marks.map(() => 0);
  let frame = 0;
  let end = 0;
  for (const task of tasks) {
    if (task.ts < end) continue; // inside the one before
    end = task.ts + task.dur;
    while (frame + 1 < marks.length && marks[frame + 1].ts <= task.ts) frame += 1;
    // A task that draws belongs to the frame that ends with it, but for the little before its mark.
    busy[frame] += task.tdur;
  }
  return busy;
}

for (const kind of ['text', 'everything']) {
  test(`${events} events of ${kind} at once`, async (t) => {
    const { page, context, trouble } = await openPage(browser, `${base}/?agent=burst`);
    const figures = await watchFrames(page, async () => {
      await page.getByLabel('Message').fill(`burst ${kind}`);
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('#talk[data-run="finished"]').waitFor({ timeout: 60_000 });
      await page.locator('#seq').getByText(/seq [2-9]\d{4}/).waitFor({ timeout: 60_000 });
    });
    t.diagnostic(`${kind}: the page worked at most ${figures.busiest.toFixed(0)} ms between two of ${figures.frames} frames; the clock says ${figures.gap.toFixed(0)} ms`);
    assert.ok(figures.busiest < longestFrame, `${figures.busiest} ms between two frames`);
    const last = kind === 'text' ? 'word 19999 of the answer' : 'Part 1999. More of it.';
    await page.locator('#talk').getByText(last).last().waitFor();
    // Everything can still be reached.
    const rows = () => page.locator('#events li').count();
    assert.equal(await rows(), 500);
    await page.getByRole('button', { name: 'Earlier events' }).click();
    assert.equal(await rows(), 1000);
    await page.locator('#events li').last().locator('summary').click();
    await page.locator('#events li').last().getByText(/"runId"/).waitFor();
    assert.deepEqual(trouble, []);
    await context.close();
  });
}

test('a question is told to a screen reader, and takes no focus', async () => {
  const { page, context, trouble } = await openPage(browser, `${base}/`);
  await page.getByLabel('Message').fill('ask');
  await page.getByLabel('Message').press('Enter');
  const card = page.getByRole('group', { name: 'Delete the folder build?' });
  await card.waitFor();
  const alert = page.getByRole('alert').filter({ hasText: 'Delete the folder build?' });
  await alert.waitFor({ state: 'attached' });
  assert.match(await alert.textContent(), /^Question: Delete the folder build\? Tool: delete_folder\.$/);
  assert.match(await card.evaluate((e) => document.getElementById(e.getAttribute('aria-describedby')).textContent), /delete_folder/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt', 'the focus was moved');
  await card.getByRole('button', { name: 'Allow once' }).click();
  await page.locator('#talk').getByText(/You allowed it/).waitFor();
  assert.equal(await page.locator('#announce').textContent(), '', 'a question that is over is still told');
  assert.deepEqual(trouble, []);
  await context.close();
});
