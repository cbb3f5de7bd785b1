// Package aguiagent knows what an agent that speaks AG-UI itself is sent, and what its events mean: RunAgentInput out
// (input.go, history.go), events in (decode.go, translator.go; uses.go for calls that have one id, snapshot.go for
// MESSAGES_SNAPSHOT, apart.go for what 1.0 does not know, ends.go for how a run ends). It is pure: bridge/httpagent makes
// the call and reads the stream.
//
// Two AG-UI streams meet here, the agent's and ours, each with ids of its own (names.go, rename.go). A run of the agent is
// one call of it. Its id is the Turn's for the prompt, and a new one for each call that brings answers. The input of the
// agent omits things that the agent cannot know: the cards of Questions, activities, and our ids of its messages.
//
// Many agents have a memory of their own and compare by id: LangGraph, Mastra, Strands. The input must match such an agent's
// memory, with its ids and in its order. Otherwise the agent adds messages to its memory a second time, and its model refuses
// every later prompt. An agent reports its memory by a MESSAGES_SNAPSHOT.
package aguiagent
