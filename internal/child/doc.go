// Package child runs programs of others as children of this process: ACP agents, MCP servers. Each runs in a process group of
// its own that ends with it (process.go), without this program's secrets in its environment (environment.go), kept from the
// files that hold them (confine.go, rules.go, mount.go), and what it leaves behind is found and ended (leftover.go).
package child
