import { useInterrupt } from '@copilotkit/react-core/v2';
import { useState } from 'react';

/** Questions puts a card into the chat for each question that is open: asked just now, or before the page was loaded. */
export function Questions() {
  useInterrupt({ render: ({ interrupts, resolve, cancel }) => interrupts.map((question) => <Card key={question.id} {...{ question, resolve, cancel }} />) });
  return null;
}

// With several questions CopilotKit sends the answers when it has all of them.
function Card({ question, resolve, cancel }) {
  const [answered, setAnswered] = useState(false);
  const answer = (send) => () => {
    setAnswered(true);
    send();
  };
  return (
    <section className="question" data-question={question.id}>
      <p>{question.message}</p>
      <button type="button" disabled={answered} onClick={answer(() => resolve({ approved: true }, question.id))}>Approve</button>
      <button type="button" disabled={answered} onClick={answer(() => resolve({ approved: false }, question.id))}>Reject</button>
      <button type="button" disabled={answered} onClick={answer(() => cancel(question.id))}>Cancel</button>
    </section>
  );
}
