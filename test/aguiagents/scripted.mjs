// What the agents of this directory that are written by hand have in common.

/** The text of a content, whatever form it has. */
export const flat = (content) => (typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''));

/** A text in pieces of at most n characters, as a model writes it. */
export const pieces = (text, n) => text.match(new RegExp(`.{1,${n}}`, 'gs')) ?? [];

/** The body of a request. */
export async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
