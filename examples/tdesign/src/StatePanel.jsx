import { useAgentState } from '@tdesign-react/chat';

/** StatePanel shows the shared state as TDesign has it: one entry per top-level key. */
export function StatePanel() {
  const { stateMap } = useAgentState();
  const keys = Object.keys(stateMap);
  if (keys.length === 0) return null;
  return (
    <details className="state">
      <summary>State: {keys.join(', ')}</summary>
      <pre>{JSON.stringify(stateMap, null, 2)}</pre>
    </details>
  );
}
