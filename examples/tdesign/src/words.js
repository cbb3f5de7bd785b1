// What agents and other people say, as text: it cannot become a part of the page, nor load anything by itself.

/** words is a value as text. An agent may send an object where a card expects a title. */
export function words(value) {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** list is a value as a list. */
export const list = (value) => (Array.isArray(value) ? value : []);

const picture = /!(?=\[[^\]\n]*\][[(])/g;

/** linked is Markdown with links in place of pictures: a picture tells its server who looks at it, a link does so when it is clicked. */
export const linked = (markdown) => markdown.replace(picture, '');

/** shown is a message with its Markdown linked; the message itself where that has no picture. */
export function shown(message) {
  const pictured = ({ type, data }) => type === 'markdown' && typeof data === 'string' && linked(data) !== data;
  if (!list(message.content).some(pictured)) return message;
  return { ...message, content: message.content.map((c) => (pictured(c) ? { ...c, data: linked(c.data) } : c)) };
}

/** ours tells whether an address is of this page's server: any other is asked for when it is clicked, not before. */
export const ours = (url) => URL.canParse(url, location.href) && new URL(url, location.href).origin === location.origin;
