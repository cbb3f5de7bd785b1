package server

import "time"

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
	// Sockets bounds how many of /ws/client are open at once.
	Sockets int
	// Retry is about when an EventSource should come back; each is told a time of its own
	// so that a restart does not call them all at once.
	Retry time.Duration
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Body, 4<<20)
	setDefault(&l.History, max(l.Body, 64<<20))
	setDefault(&l.BodyTime, 30*time.Second)
	setDefault(&l.AnswerTime, 2*time.Minute)
	setDefault(&l.WriteTime, 10*time.Second)
	setDefault(&l.Heartbeat, 15*time.Second)
	setDefault(&l.Streams, 20_000)
	setDefault(&l.Sockets, 1000)
	setDefault(&l.Retry, 2*time.Second)
	return l
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
