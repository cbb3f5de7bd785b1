// A thread's history as TDesign draws it.

import { AGUIAdapter } from '@tdesign-react/chat';

/**
 * toHistory converts what GET /api/threads/{id}/messages gives. convertHistoryMessages hands on a user's content as one
 * text, in which Aqueduct writes pictures and files as links; here they become TDesign's attachments again.
 */
export function toHistory(messages) {
  const sent = new Map(messages.filter((m) => m.role === 'user' && m.attachments).map((m) => [m.id, m]));
  return AGUIAdapter.convertHistoryMessages(messages).map((message) => {
    const { text, attachments } = sent.get(message.id) ?? {};
    if (!attachments) return message;
    return {
      ...message,
      content: [...(text ? [{ type: 'text', data: text }] : []), { type: 'attachment', data: attachments }],
    };
  });
}
