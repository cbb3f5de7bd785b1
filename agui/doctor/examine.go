// This file goes through what was recorded, and judges all of it that is no event: heads of answers, ends,
// preflights, repeated answers.

package doctor

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"aqueduct/agui"
)

// Examine looks at everything that was recorded.
func Examine(ex Exchange) Report {
	x := newExamination()
	if ex.Run != nil {
		x.run(ex.Run)
	}
	if ex.Malformed != nil {
		x.malformed(*ex.Malformed)
	}
	if ex.Preflight != nil {
		x.preflight(ex.Preflight)
	}
	if ex.Run != nil && ex.Again != nil {
		x.again(ex.Run, ex.Again, ex.AgainAfter)
	}
	return x.done()
}

// run looks at one run: its head, then its bytes, then its events, then when they came. An answer that is no event
// stream ends it: the rules about streams are reported as not seen then.
func (x *examination) run(r *Run) {
	x.saw(anAnswer)
	if r.Status != http.StatusOK {
		x.findf("http_status", "status %d: %s", r.Status, quoted(r.body()))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "text/event-stream" {
		x.findf("content_type", "Content-Type %q", r.Header.Get("Content-Type"))
		return
	}
	x.saw(aStream)
	x.head(r.Header)
	frames := x.frames(r)
	s := newStream(x, r)
	for _, f := range frames {
		s.frame(f)
	}
	s.end()
	x.ending(r, s)
	x.timing(r, frames)
}

// body is what there is of the body.
func (r *Run) body() (b []byte) {
	for _, c := range r.Chunks {
		b = append(b, c.Data...)
	}
	return b
}

// head looks at the hints for what lies between the server and its clients. They change nothing for a client that is
// reached directly, so each is a warning.
func (x *examination) head(h http.Header) {
	if control := strings.ToLower(h.Get("Cache-Control")); !strings.Contains(control, "no-cache") && !strings.Contains(control, "no-store") {
		x.findf("cache_control", "Cache-Control %q", h.Get("Cache-Control"))
	}
	if !strings.EqualFold(h.Get("X-Accel-Buffering"), "no") {
		x.findf("accel_buffering", "X-Accel-Buffering %q", h.Get("X-Accel-Buffering"))
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		x.findf("compressed", "Content-Encoding %q", encoding)
	}
}

// ending looks at how the stream came to its end. A stream that was given up in mid-run has none that could be judged.
func (x *examination) ending(r *Run, s *stream) {
	over := s.terminals > 0 && !s.open
	x.report.Complete = over || r.Ended != GivenUp
	if !x.report.Complete {
		x.notef("the run had not ended after %s, and was left", r.After)
		return
	}
	x.saw(anEnd)
	switch {
	case r.Ended == Broken && !over:
		x.findf("connection_broken", "after %s, without a terminal event: %s", r.After, r.Cause)
	case r.Ended == Closed && !over:
		x.findf("truncated", "the body ends in order after %d events, without a terminal event", s.events)
	case r.Ended == GivenUp:
		x.findf("not_closed", "open for %s behind the terminal event", r.Patience)
	}
}

// malformed looks at the answer to an input that is none.
func (x *examination) malformed(a Answer) {
	x.saw(aMalformed)
	if a.Status < 400 || a.Status >= 500 {
		x.findf("malformed_input", "status %d to an input whose messages are a number", a.Status)
	}
}

// preflight looks at what pages of another origin may do. Where no origin is to be let in, it only looks for one that
// is let in although no server can know it. A star lets a page in here: credentials in the sense of the Fetch
// Standard are cookies, and not an Authorization header that the page sets itself.
func (x *examination) preflight(p *Preflight) {
	x.saw(aPreflight)
	allowed := p.Header.Get("Access-Control-Allow-Origin")
	open := p.Status < 300 && (allowed == p.Origin || allowed == "*")
	if !p.Wanted {
		if allowed == p.Origin && p.Header.Get("Access-Control-Allow-Credentials") == "true" {
			x.findf("cors_credentials", "a page of %s is let in with its visitor's cookies", p.Origin)
		}
		return
	}
	x.saw(anOrigin)
	if posted := p.Post.Get("Access-Control-Allow-Origin"); !open || posted != p.Origin && posted != "*" {
		x.findf("cors_refused", "status %d, Access-Control-Allow-Origin %q, and %q with the answer", p.Status, allowed, posted)
		return
	}
	headers := strings.Split(strings.ToLower(strings.ReplaceAll(p.Header.Get("Access-Control-Allow-Headers"), " ", "")), ",")
	for _, name := range []string{"content-type", "authorization"} {
		// A star stands for every header but Authorization.
		if !slices.Contains(headers, name) && (name == "authorization" || !slices.Contains(headers, "*")) {
			x.findf("cors_headers", "Access-Control-Allow-Headers %q lacks %s", p.Header.Get("Access-Control-Allow-Headers"), name)
		}
	}
}

// again compares the ids of two answers to one input. Ids that are new are fine: the server has run it once more.
// Where the second has ids of the first, it is a replay: of all of it, or of what stands behind the position that was
// named. AG-UI has no resumption, so a server owes neither; what it owes is not to give one id to two events.
func (x *examination) again(first, second *Run, after string) {
	if second.Status != http.StatusOK {
		x.notef("the same input again is answered with status %d", second.Status)
		return
	}
	known := make(map[string][]byte)
	var all, rest, got []string // ids
	for _, f := range first.parse() {
		if f.id == "" {
			continue
		}
		known[f.id] = f.data
		all, rest = append(all, f.id), append(rest, f.id)
		if f.id == after {
			rest = nil
		}
	}
	for _, f := range second.parse() {
		before, ok := known[f.id]
		switch {
		case f.id == "" || !ok:
		case bytes.Equal(before, f.data):
			got = append(got, f.id)
		default:
			x.findf("id_reused", "id %s was %s and is %s", f.id, quoted(before), quoted(f.data))
		}
	}
	if len(known) > 0 {
		x.saw(aRepeat)
	}
	switch {
	case len(got) == 0:
		x.notef("the same input again is a new run")
	case slices.Equal(got, all):
		x.notef("the same input again gives the same run, under the same ids")
	case slices.Equal(got, rest):
		x.notef("the same input again, with Last-Event-ID, gives what comes behind that event")
	case x.found["id_reused"] != nil: // is found already
	default:
		x.findf("resume_incomplete", "behind id %s stand %d events, and %d came", quoted([]byte(after)), len(rest), len(got))
	}
}

// ruleOf is the code of a broken rule of the grammar.
func ruleOf(err error) (string, *agui.GrammarError) {
	var broken *agui.GrammarError
	if errors.As(err, &broken) {
		return string(broken.Rule), broken
	}
	return "", nil
}
