// Package mcpserver is /mcp: this server as a server of the Model Context Protocol. What it offers are the tools of the tool
// proxy; a call is one of those, with policy, approval, trace and audit. Who calls is an agent, by its run or session token,
// or a user's program, by the user's token.
//
// It is stateless: every request has a protocol session of its own (handler.go), so that any replica answers any request and
// a restart loses none. caller.go has the two sorts of callers, offer.go lists tools, call.go makes a call and waits for it,
// ask.go has the person at the client decide, result.go words the end. left.go, cancelled.go and adopt.go have a client get its
// call that gave up, or whose server was killed, and makes it again.
package mcpserver
