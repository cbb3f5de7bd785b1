// The list of threads at the side.

import { arrange, el, reuse, setText } from './dom.js';

/** drawThreads draws the list; a thread is a link, so that it opens in a tab of its own too. */
export function drawThreads(list, threads, current) {
  for (const thread of threads) {
    const item = reuse(list, thread.id, () => el('li', {}, el('a', { href: `#${encodeURIComponent(thread.id)}` })));
    const link = item.firstElementChild;
    setText(link, thread.shared ? `${thread.title || thread.id} · ${thread.shared.owner}` : thread.title || thread.id);
    if (thread.id === current) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  }
  arrange(list, threads.map((t) => t.id));
}
