// Package aguiagent knows what an agent that speaks AG-UI itself is sent, and what its events mean: RunAgentInput out
// (input.go, history.go), events in (decode.go, translator.go; uses.go for calls that have one id, snapshot.go for
// MESSAGES_SNAPSHOT, apart.go for what 1.0 does not know, ends.go for how a run ends). It is pure: bridge/httpagent makes
// the call and reads the stream.
//
// Two AG-UI streams meet here, the agent's and ours, each with ids of its own (names.go, rename.go). A run of the agent is one
// call of it: its id is the Turn's for the prompt, and a new one for each call that brings answers. What the agent cannot
// know stays out of what it is sent: the cards of Questions, activities, and the ids that its messages have here.
//
// Many agents have a memory of their own and compare by id: LangGraph, Mastra, Strands. What such an agent is sent has to be
// what it has, under its ids and in its order, or it adds messages to its memory a second time, and the model behind it
// refuses every prompt from then on. A MESSAGES_SNAPSHOT is how an agent reports its memory.
package aguiagent
