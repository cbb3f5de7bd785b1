// Files of messages that lie on other servers. A picture tells its server who looks at it, so each is a link until it is clicked.

import { el, visible, words } from './dom.js';

/** remoteFiles gives the files of a content that have an address on another server: {name, url}. */
export function remoteFiles(content) {
  if (!Array.isArray(content)) return [];
  return content.filter((part) => part?.source?.type === 'url' && /^https?:\/\//.test(part.source.value))
    .map(({ type, source, metadata }) => ({ name: words(metadata?.filename ?? metadata?.name ?? type), url: source.value }));
}

/** drawFiles shows links. The server of one learns neither the page nor the thread from a click. */
export function drawFiles(box, files) {
  box.hidden = files.length === 0;
  box.replaceChildren(...files.map(({ name, url }) => el('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, visible(`${name} (${url})`))));
}
