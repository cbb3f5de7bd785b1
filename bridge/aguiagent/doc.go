// Package aguiagent knows what an agent that speaks AG-UI itself is sent, and what its events mean: RunAgentInput out
// (input.go, history.go), events in (translator.go; snapshot.go for MESSAGES_SNAPSHOT, apart.go for what
// 1.0 does not know, ends.go for how a run ends). It is pure: bridge/httpagent makes the call and reads the stream.
//
// Two AG-UI streams meet here, the agent's and ours, each with ids of its own (names.go). A run of the agent is one call
// of it: its id is the Turn's for the prompt, and a new one for each call that brings answers. What the agent cannot know
// stays out of what it is sent: the cards of Questions, activities, and the ids that its messages have here.
package aguiagent
