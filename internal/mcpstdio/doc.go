// Package mcpstdio answers an MCP client over standard streams by an MCP server elsewhere: it passes on lists, calls, their
// progress and the questions to the person at the client. It decides nothing; the server does.
package mcpstdio
