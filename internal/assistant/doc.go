// Package assistant is the agent that comes with the server: a chat with a model, which uses the tools of the installation and
// of the page. To the rest of the program it is an HTTP agent like any other (docs/protocol.md, "HTTP agents"), called
// in memory, and it uses nothing that another agent could not: the run token of each call is its key for models
// (docs/models.md) and tools (docs/tools.md). So policy, approvals, budgets and the trace see it as they see any agent.
//
// handler.go takes the call, turn.go is the loop of model and tools, model.go reads the model's stream, toolbox.go knows the
// tools and has them run, platform.go makes the requests, stream.go writes the frames. It keeps nothing between two calls.
package assistant
