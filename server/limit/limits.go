// Package limit holds the limits of the edge: rates of actions, sockets, connections and the bytes of request bodies.
//
// Each limit is for one thing that a caller can take from others, and is counted by who takes it: a principal where
// one is known, else an address. What is full refuses with a code (brakes.go), or closes the oldest of those that
// have shown no credential; a caller with a good credential is never closed for another.
//
//	limits.go       the settings and their defaults
//	brake.go        a token bucket by key; brakes.go  those of the server: runs, decisions, tool calls, refused credentials
//	connections.go  connections of the listeners; sockets.go  those that became WebSockets
//	bodies.go       the bytes of request bodies
//	metrics.go      what was refused, and what there is now
package limit

import (
	"time"
)

// Limits are the server's settings. The zero value of a member means its default.
type Limits struct {
	// Body bounds a request's body: a history of some thousand messages fits.
	Body int64
	// History bounds a chat's body together with what is known of it: official clients send the whole history with each
	// message, pictures included. Only what is new counts against Body, and no more than that is held. It is what a browser
	// sends in a second or two on a good line; beyond it a page should send URLs, as the history gives them.
	History int64
	// BodyTime is how long a client may take to send its body, so that a slow one cannot
	// hold a connection for nothing (slowloris).
	BodyTime time.Duration
	// AnswerTime is how long an answer that is no stream may take in all.
	AnswerTime time.Duration
	// WriteTime is how long one write may wait for its reader. Who cannot take writeBytes in
	// that time is cut, and comes back with its last id.
	WriteTime time.Duration
	// Heartbeat is the silence after which a comment is sent: proxies between cut idle
	// streams from 30 s on.
	Heartbeat time.Duration
	// Streams bounds how many are open at once: each holds a connection and a tail.
	Streams int64
	// Sockets bounds how many WebSockets of known callers are open at once, and SocketsPerPrincipal those of one user: a
	// page has two, and one user's loop must not take the places of all.
	Sockets             int
	SocketsPerPrincipal int
	// SocketsBeforeHello bounds the WebSockets that have not authenticated. A new one evicts the oldest.
	SocketsBeforeHello int
	// Connections bounds connections on which a good credential was shown: each stream has one.
	Connections int
	// AnonymousConnections bounds the others, and AnonymousPerAddress those of one address. A client is anonymous for the
	// milliseconds until its first request is read; one that stays so is evicted by newer ones. An idle connection costs
	// about 20 KiB.
	AnonymousConnections int
	AnonymousPerAddress  int
	// Bodies bounds the bytes of all request bodies that are held at once.
	Bodies int64
	// BodiesWait is how long a body waits for that: longer than one takes that comes at network speed, and short enough for
	// a client to try again.
	BodiesWait time.Duration
	// Runs, Decisions and Invokes bound how often one principal may prompt, decide, and have tools run. One address
	// may do AddressShare times as much. The defaults are what a program in a loop reaches and people with hundreds
	// of parallel agents do not: a start of some thousand Runs at once is within Runs.Burst.
	Runs, Decisions, Invokes Rate
	// Failures bounds the refused credentials of one address that are answered as such; good ones always pass.
	Failures Rate
	// Retry is about when an EventSource should come back. Each gets a random time around it, so that a restart does not bring
	// all of them at once.
	Retry time.Duration
}

// WithDefaults replaces each zero member by its default.
func (l Limits) WithDefaults() Limits {
	setDefault(&l.Body, 4<<20)
	setDefault(&l.History, max(l.Body, 64<<20))
	setDefault(&l.BodyTime, 30*time.Second)
	setDefault(&l.AnswerTime, 2*time.Minute)
	setDefault(&l.WriteTime, 10*time.Second)
	setDefault(&l.Heartbeat, 15*time.Second)
	setDefault(&l.Streams, 20_000)
	setDefault(&l.Sockets, 1000)
	setDefault(&l.SocketsPerPrincipal, max(l.Sockets/4, 1))
	setDefault(&l.SocketsBeforeHello, 256)
	setDefault(&l.Connections, 25_000)
	setDefault(&l.AnonymousConnections, 2048)
	setDefault(&l.AnonymousPerAddress, max(l.AnonymousConnections/2, 1))
	setDefault(&l.Bodies, 64<<20)
	setDefault(&l.BodiesWait, 2*time.Second)
	l.Bodies = max(l.Bodies, callerShare*(l.Body+1))
	setDefault(&l.Runs, Rate{PerSecond: 100, Burst: 5000})
	setDefault(&l.Decisions, Rate{PerSecond: 100, Burst: 5000})
	setDefault(&l.Invokes, Rate{PerSecond: 1000, Burst: 10_000})
	setDefault(&l.Failures, Rate{PerSecond: 10, Burst: 1000})
	setDefault(&l.Retry, 2*time.Second)
	return l
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
