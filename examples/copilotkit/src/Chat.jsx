import { CopilotChat, CopilotChatAssistantMessage, useAgent, useCopilotKit, useDefaultRenderTool, useFrontendTool } from '@copilotkit/react-core/v2';
import { z } from 'zod';
import { Questions } from './Questions.jsx';

// A picture tells its server who looks at it; a link in its place does so when it is clicked.
const ours = (src) => src.startsWith('data:image/') || (URL.canParse(src, location.href) && new URL(src, location.href).origin === location.origin);
const Picture = ({ src = '', alt }) => (ours(src) ? <img src={src} alt={alt} /> : <a href={src} target="_blank" rel="noopener noreferrer">{alt || src}</a>);
const components = { img: Picture };
const Words = (props) => <CopilotChatAssistantMessage.MarkdownRenderer {...props} components={components} />;

export function Chat({ threadId }) {
  const { agent } = useAgent();
  const { copilotkit } = useCopilotKit();

  useFrontendTool({
    name: 'set_color',
    description: 'Colors the page',
    parameters: z.object({ color: z.string() }),
    handler: async ({ color }) => {
      document.body.style.setProperty('--page', color);
      return { colored: color };
    },
  });

  useDefaultRenderTool(); // the agent's own tools, as cards

  // Both buttons send a history that ends earlier. Aqueduct starts a branch there, and keeps the old one.
  const again = (messages) => {
    agent.setMessages(messages);
    return copilotkit.runAgent({ agent });
  };
  const before = ({ id }) => agent.messages.slice(0, agent.messages.findIndex((m) => m.id === id));
  const regenerate = (answer) => {
    const messages = before(answer);
    return again(messages.slice(0, messages.findLastIndex((m) => m.role === 'user') + 1));
  };
  const edit = ({ message }) => {
    const content = window.prompt('Your message', message.content);
    return content && again([...before(message), { id: crypto.randomUUID(), role: 'user', content }]);
  };

  return (
    <main>
      <CopilotChat
        threadId={threadId}
        attachments={{ enabled: true, accept: 'image/*' }}
        messageView={{ assistantMessage: { onRegenerate: regenerate, markdownRenderer: Words }, userMessage: { onEditMessage: edit } }}
      />
      <Questions />
      <aside>
        <button type="button" id="count" onClick={() => agent.setState({ ...agent.state, count: (agent.state?.count ?? 0) + 1 })}>
          Count: <output>{agent.state?.count ?? 0}</output>
        </button>
      </aside>
    </main>
  );
}
