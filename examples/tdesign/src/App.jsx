import { useEffect, useState } from 'react';
import { Alert, Button, Loading } from 'tdesign-react';

import { loadThread } from './aqueduct.js';
import { Chat } from './Chat.jsx';
import { toHistory } from './history.js';
import { newThread, rememberedThread } from './thread.js';

const nothing = { history: [], running: false };

/** App loads a thread's history and then shows the chat, which must begin with it. */
export function App() {
  const [thread, setThread] = useState(rememberedThread);
  const [loaded, setLoaded] = useState(null);
  const [problem, setProblem] = useState('');

  useEffect(() => {
    let wanted = true;
    setProblem('');
    setLoaded(thread.known ? null : nothing);
    if (thread.known) {
      loadThread(thread.id)
        .then(({ messages, running }) => ({ history: toHistory(messages), running }))
        .then((result) => wanted && setLoaded(result))
        .catch((error) => wanted && setProblem(error.message));
    }
    return () => { wanted = false; };
  }, [thread]);

  return (
    <div className="page">
      <header>
        <h1>TDesign Chat on Aqueduct</h1>
        <Button variant="outline" size="small" onClick={() => setThread(newThread())}>New thread</Button>
      </header>
      {problem && <Alert theme="error" message={problem} />}
      {loaded
        ? <Chat key={thread.id} threadId={thread.id} history={loaded.history} running={loaded.running} onProblem={setProblem} />
        : !problem && <Loading />}
    </div>
  );
}
