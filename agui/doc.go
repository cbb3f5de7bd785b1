// Package agui is AG-UI 1.0 as Go: the events, the input of a run, what may
// follow what, and how all of it looks on the wire.
//
// The package does no I/O and knows no clock. An event is encoded once, by
// [Event.AppendJSON], to one line of JSON whose first member is "type"; those
// bytes are what a log keeps and what a client of version 1.0 is sent. Older
// clients get the same bytes through a [Dialect].
//
// Encoding is strict and decoding is tolerant. Optional members are left out
// rather than written as null (AG-UI 1.0, "Optional fields"), JSON the protocol
// does not look into stays as it came, to the last digit, and no text whatever
// can put a line break into an encoded event.
package agui
