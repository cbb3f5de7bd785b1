// A thread's history as TDesign draws it.

import { AGUIAdapter } from '@tdesign-react/chat';

import { linked, ours } from './words.js';

/**
 * toHistory converts what GET /api/threads/{id}/messages gives. convertHistoryMessages hands on a user's content as one
 * text, in which Aqueduct writes pictures and files as links; here those of this server become TDesign's attachments again.
 * TDesign would load a picture of another server at once.
 */
export function toHistory(messages) {
  const sent = new Map(messages.filter((m) => m.role === 'user' && m.attachments).map((m) => [m.id, m]));
  return AGUIAdapter.convertHistoryMessages(messages).map((message) => {
    const { text, attachments } = sent.get(message.id) ?? {};
    if (!attachments) return message;
    if (!attachments.every(({ url }) => ours(url))) return { ...message, content: [{ type: 'markdown', data: linked(sent.get(message.id).content) }] };
    return {
      ...message,
      content: [...(text ? [{ type: 'text', data: text }] : []), { type: 'attachment', data: attachments }],
    };
  });
}
