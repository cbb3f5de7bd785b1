// A graph of LangGraph (graph.mjs) on LangGraph's own server, behind the protocol's own package for it (@ag-ui/langgraph).

import { LangGraphAgent } from '@ag-ui/langgraph';
import { start } from './langgraphserver.mjs';
import { serve } from './serve.mjs';

const of = await start('graph.mjs', ['messages', 'tools', 'count']);
// As it ships the package tells an interrupt by CUSTOM on_interrupt alone; with OUTCOME, in both ways.
serve(() => new LangGraphAgent({ ...of, ...(process.env.OUTCOME && { emitInterruptOutcome: true }) }));
