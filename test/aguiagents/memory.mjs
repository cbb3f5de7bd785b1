// A graph of LangGraph with a strict model (strictgraph.mjs) behind @ag-ui/langgraph as the package ships.

import { LangGraphAgent } from '@ag-ui/langgraph';
import { start } from './langgraphserver.mjs';
import { serve } from './serve.mjs';

const of = await start('strictgraph.mjs', ['messages', 'tools']);
serve(() => new LangGraphAgent(of));
