// Package mcpservers holds the connections to MCP servers that the operator named, and offers their tools as server tools:
// it is the tools.Runtime of those. A server is a program that is started here, or an address.
//
// What a server states about its tools is a claim: names, schemas and annotations are checked before they are kept, no
// annotation lets a call run that a person would be asked for, and results are bounded. The policy decides about their calls
// as about any other, before a call gets here.
//
// servers.go has the servers; server.go keeps one connected; process.go and address.go are the two ways to one,
// messages.go takes what is no message out of a program's output; offered.go makes tools of what it offers;
// execute.go makes a call, delivery.go knows whether it may have reached the tool, result.go makes its result.
//
// A call is never executed twice. Whatever fails behind the first byte that may have reached the server is an unknown
// outcome or a timeout, unless the server itself refused the call in a form that proves it did not run.
package mcpservers
