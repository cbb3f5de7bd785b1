// Package wire is the wire: the Agent Client Protocol (version 1, JSON-RPC 2.0 in lines of
// JSON) as an agent speaks it on its standard streams, and the messages of /ws/agent that
// carry it between a proxy and the gateway. It holds types and decoding, no I/O.
//
// Reading is tolerant on purpose. An agent's update is carried as the bytes it came in, and
// a message of an unknown type is kept whole (Unknown): both ends are built by others and grow.
package wire
