import { createRoot } from 'react-dom/client';
import { CopilotKitProvider } from '@copilotkit/react-core/v2';
import '@copilotkit/react-core/v2/styles.css';
import './page.css';
import { Chat } from './Chat.jsx';

// The thread's id is all the page remembers: everything else comes back from Aqueduct.
const query = new URLSearchParams(location.search);
const threadId = query.get('thread') ?? localStorage.thread ?? crypto.randomUUID();
localStorage.thread = threadId;

createRoot(document.getElementById('root')).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" useSingleEndpoint={false}>
    <Chat threadId={threadId} />
  </CopilotKitProvider>,
);
