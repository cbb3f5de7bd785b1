import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import {
  ActivityRenderer, ChatList, ChatMessage, ChatSender, ToolCallRenderer, isActivityContent, isToolCallContent,
  useAgentActivity, useAgentToolcall, useChat,
} from '@tdesign-react/chat';
import { Button } from 'tdesign-react';

import { chatService } from './aqueduct.js';
import { activities, toolcalls } from './cards.jsx';
import { StatePanel } from './StatePanel.jsx';
import { shown } from './words.js';

const messageProps = {
  user: { variant: 'base', placement: 'right' },
  assistant: { placement: 'left' },
};

export function Chat({ threadId, history, running, onProblem }) {
  useAgentToolcall(toolcalls);
  useAgentActivity(activities);
  const service = useMemo(() => chatService(threadId, onProblem), [threadId, onProblem]);
  const { chatEngine, messages, status } = useChat({ defaultMessages: history, chatServiceConfig: service });
  const [draft, setDraft] = useState('');
  const list = useRef(null);

  // The history leaves out a Run that is still going; asking for nothing joins it.
  useEffect(() => {
    if (running) chatEngine.sendAIMessage({ params: {}, sendRequest: true });
  }, [chatEngine, running]);

  // The answer is the call's own id and name with the result as a JSON string. TDesign's
  // getToolcallByName would give the first card of that name, not the one clicked.
  const respond = useCallback(async (toolCall, response) => {
    const { toolCallId, toolCallName } = toolCall;
    await chatEngine.sendAIMessage({
      params: { toolCallMessage: { toolCallId, toolCallName, result: JSON.stringify(response) } },
      sendRequest: true,
    });
    list.current?.scrollList({ to: 'bottom' });
  }, [chatEngine]);

  const send = async (event) => {
    const prompt = event.detail.value.trim();
    if (!prompt) return;
    setDraft('');
    await chatEngine.sendUserMessage({ prompt });
  };

  return (
    <div className="chat">
      <StatePanel />
      <ChatList ref={list} style={{ flex: 1, minHeight: 0 }}>
        {messages.map((message) => (
          <ChatMessage key={message.id} {...messageProps[message.role]} message={shown(message)}>
            {message.content?.map((content, i) => <Content key={i} content={content} index={i} respond={respond} />)}
          </ChatMessage>
        ))}
      </ChatList>
      {messages.at(-1)?.role === 'assistant' && status === 'complete' && (
        <div><Button size="small" variant="text" onClick={() => chatEngine.regenerateAIMessage()}>Regenerate</Button></div>
      )}
      <ChatSender
        value={draft}
        placeholder="Write something; the demo agent tells what it can show"
        loading={status === 'pending' || status === 'streaming'}
        onChange={(event) => setDraft(event.detail)}
        onSend={send}
        onStop={() => chatEngine.abortChat()}
      />
    </div>
  );
}

// Content draws what TDesign leaves to the page. It must sit in the slot of its block.
function Content({ content, index, respond }) {
  const slot = `${content.type}-${index}`;
  if (isToolCallContent(content)) return <div slot={slot}><ToolCallRenderer toolCall={content.data} onRespond={respond} /></div>;
  if (isActivityContent(content)) return <div slot={slot}><ActivityRenderer activity={content.data} /></div>;
  return null;
}
