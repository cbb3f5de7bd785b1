// A chat of assistant-ui's own parts, on Aqueduct without anything between: /?thread=ID&aqueduct=URL

import { HttpAgent } from '@ag-ui/client';
import { AssistantRuntimeProvider, SimpleImageAttachmentAdapter } from '@assistant-ui/react';
import { useAgUiRuntime } from '@assistant-ui/react-ag-ui';
import { useEffect, useMemo } from 'react';
import { createRoot } from 'react-dom/client';
import { Chat } from './Chat.jsx';
import { historyOf, loadQuestions } from './history.js';

const query = new URLSearchParams(location.search);
const threadId = query.get('thread');
const aqueduct = query.get('aqueduct');

function App() {
  const agent = useMemo(() => new HttpAgent({ url: `${aqueduct}/api/agui/chat`, threadId }), []);
  const history = useMemo(() => historyOf(aqueduct, threadId), []);
  const runtime = useAgUiRuntime({
    agent,
    adapters: { history, attachments: new SimpleImageAttachmentAdapter() },
    onError: (error) => (window.troubles ??= []).push(String(error)),
  });
  useEffect(() => loadQuestions(agent, runtime, history), [agent, runtime, history]);
  return <AssistantRuntimeProvider runtime={runtime}><Chat /></AssistantRuntimeProvider>;
}

createRoot(document.getElementById('root')).render(<App />);
