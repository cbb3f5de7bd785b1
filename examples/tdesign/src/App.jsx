import { useEffect, useState } from 'react';
import { AGUIAdapter } from '@tdesign-react/chat';
import { Alert, Button, Loading } from 'tdesign-react';

import { loadThread } from './aqueduct.js';
import { Chat } from './Chat.jsx';
import { currentThread, newThread } from './thread.js';

/** App loads a thread's history and then shows the chat, which must begin with it. */
export function App() {
  const [threadId, setThreadId] = useState(currentThread);
  const [loaded, setLoaded] = useState(null);
  const [problem, setProblem] = useState('');

  useEffect(() => {
    let wanted = true;
    setLoaded(null);
    loadThread(threadId)
      .then(({ messages, running }) => ({ history: AGUIAdapter.convertHistoryMessages(messages), running }))
      .then((result) => wanted && setLoaded(result))
      .catch((error) => wanted && setProblem(error.message));
    return () => { wanted = false; };
  }, [threadId]);

  return (
    <div className="page">
      <header>
        <h1>TDesign Chat on Aqueduct</h1>
        <Button variant="outline" size="small" onClick={() => setThreadId(newThread())}>New thread</Button>
      </header>
      {problem && <Alert theme="error" message={problem} />}
      {loaded
        ? <Chat key={threadId} threadId={threadId} history={loaded.history} running={loaded.running} onProblem={setProblem} />
        : !problem && <Loading />}
    </div>
  );
}
