import {
  ActionBarPrimitive, AttachmentPrimitive, BranchPickerPrimitive, ComposerPrimitive, MessagePrimitive, ThreadPrimitive,
  useAssistantTool, useAuiState,
} from '@assistant-ui/react';
import { useAgUiInterrupts, useAgUiSetState, useAgUiState, useAgUiSubmitInterruptResponses } from '@assistant-ui/react-ag-ui';
import { useState } from 'react';

export function Chat() {
  useAssistantTool({
    toolName: 'set_color',
    description: 'Colors the page',
    parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] },
    execute: async ({ color }) => {
      document.body.style.setProperty('--page', color);
      return { colored: color };
    },
  });
  const running = useAuiState(({ thread }) => thread.isRunning);
  return (
    <ThreadPrimitive.Root data-running={running}>
      <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage, UserEditComposer }} />
      <Questions />
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Attachments components={{ Attachment }} />
        <ComposerPrimitive.AddAttachment>Attach</ComposerPrimitive.AddAttachment>
        <ComposerPrimitive.Input aria-label="Message" />
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </ComposerPrimitive.Root>
      <Count />
    </ThreadPrimitive.Root>
  );
}

const Attachment = () => <AttachmentPrimitive.Root data-attachment><AttachmentPrimitive.Name /></AttachmentPrimitive.Root>;
const Image = ({ image }) => <img src={image} alt="" />;
const Tool = ({ toolName, result }) => <div data-tool={toolName}>{toolName}: {typeof result === 'string' ? result : JSON.stringify(result)}</div>;

function UserMessage() {
  return (
    <MessagePrimitive.Root data-role="user">
      <MessagePrimitive.Attachments components={{ Attachment: SentAttachment }} />
      <div data-text><MessagePrimitive.Parts components={{ Image }} /></div>
      <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
    </MessagePrimitive.Root>
  );
}

function SentAttachment() {
  const image = useAuiState(({ attachment }) => attachment.content?.find((part) => part.type === 'image')?.image);
  return image ? <Image image={image} /> : null;
}

function UserEditComposer() {
  return (
    <ComposerPrimitive.Root data-editing>
      <ComposerPrimitive.Input aria-label="Edited message" />
      <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  );
}

function AssistantMessage() {
  return (
    <MessagePrimitive.Root data-role="assistant">
      <div data-text><MessagePrimitive.Parts components={{ tools: { Fallback: Tool }, Reasoning: () => null }} /></div>
      <MessagePrimitive.Error><span role="alert">The answer failed.</span></MessagePrimitive.Error>
      <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
      <BranchPickerPrimitive.Root hideWhenSingleBranch>
        <BranchPickerPrimitive.Previous>Previous</BranchPickerPrimitive.Previous>
        <BranchPickerPrimitive.Number /> of <BranchPickerPrimitive.Count />
      </BranchPickerPrimitive.Root>
    </MessagePrimitive.Root>
  );
}

// All answers go together, as AG-UI wants them.
function Questions() {
  const open = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const [answers, setAnswers] = useState({});
  const answer = (id, approved) => {
    const all = { ...answers, [id]: approved };
    setAnswers(all);
    if (open.some((question) => !(question.id in all))) return;
    submit(open.map(({ id: interruptId }) => ({ interruptId, status: 'resolved', payload: { approved: all[interruptId] } })));
  };
  return open.map(({ id, message }) => (
    <section className="question" data-question={id} key={id}>
      <p>{message}</p>
      <button type="button" disabled={id in answers} onClick={() => answer(id, true)}>Approve</button>
      <button type="button" disabled={id in answers} onClick={() => answer(id, false)}>Reject</button>
    </section>
  ));
}

function Count() {
  const state = useAgUiState();
  const setState = useAgUiSetState();
  return (
    <button type="button" id="count" onClick={() => setState({ ...state, count: (state?.count ?? 0) + 1 })}>
      Count: <output>{state?.count ?? 0}</output>
    </button>
  );
}
