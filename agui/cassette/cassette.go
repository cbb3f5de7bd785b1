// Package cassette keeps the Runs of a thread in a file and plays them again: each event under its position, with the
// bytes that every client got, and the time at which it came. The form of the file is in docs/cassette.md.
//
// A cassette holds whole Runs only. It is read and checked as a whole before anything of it is played, so a file that
// was cut or changed is an error and not half an answer.
package cassette

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"strconv"
	"time"

	"aqueduct/internal/fault"
)

// Version is that of the form which this package writes, and the newest that it reads.
const Version = 1

const (
	// MaxEvent bounds one event. A server keeps smaller ones; the bound is for files that are none of ours.
	MaxEvent = 8 << 20
	// MaxBytes bounds a file: all of it is in memory while it is played.
	MaxBytes = 512 << 20
)

// The codes of what is wrong with a file.
const (
	Foreign  = "cassette_foreign"   // it is something else
	Newer    = "cassette_newer"     // a later Aqueduct has written it
	Broken   = "cassette_broken"    // it was cut, or changed
	TooLarge = "cassette_too_large" // it is more than fits
)

// Header is the first line of a cassette. RunID is empty for one of a whole thread.
type Header struct {
	Version  int    `json:"aqueduct_cassette"`
	ThreadID string `json:"threadId"`
	RunID    string `json:"runId,omitempty"`
}

// Event is one event: its position in its thread, when it came, counted from the first event of the cassette, and its
// bytes as they were kept.
type Event struct {
	Seq  int64
	At   time.Duration
	JSON []byte
}

// Run is one Run, from its RUN_STARTED to its terminal event.
type Run []Event

// line is an event in the file. A whole file is lines of JSON, of which only those in the middle repeat:
//
//	{"aqueduct_cassette":1,"threadId":"t1","runId":"r1"}
//	{"seq":41,"atMs":0,"event":{"type":"RUN_STARTED", …}}
//	{"events":12,"sha256":"…"}
type line struct {
	Seq   int64           `json:"seq"`
	AtMS  int64           `json:"atMs"`
	Event json.RawMessage `json:"event"`
}

// trailer is the last line. Without it the file was cut.
type trailer struct {
	Events int64  `json:"events"`
	SHA256 string `json:"sha256"`
}

// sum is the hash over positions and bytes: that of what `aqueduct tail` prints for the same events.
type sum struct {
	hash.Hash
	scratch []byte
}

func newSum() *sum { return &sum{Hash: sha256.New()} }

// add takes one event in.
func (s *sum) add(seq int64, event []byte) {
	s.scratch = append(strconv.AppendInt(s.scratch[:0], seq, 10), '\t')
	s.scratch = append(append(s.scratch, event...), '\n')
	s.Write(s.scratch)
}

func (s *sum) hex() string { return hex.EncodeToString(s.Sum(nil)) }

// broken is an error about one line of a file, counted from 1.
func broken(at int, what string) error {
	return fault.New(Broken, "line "+strconv.Itoa(at)+" of the cassette "+what)
}
