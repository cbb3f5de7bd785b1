package trace

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// Context is a W3C trace context: which trace a request is part of, and which span of it made the request.
type Context struct {
	TraceID string // 32 hex digits
	SpanID  string // 16 hex digits
	Flags   string // 2 hex digits
	State   string // tracestate, as it came
}

const (
	version = "00"
	// flagsRecorded is the flag sampled. It lets the one that is called know that this span is on record, which each of ours is; an
	// agent that follows its caller's decision would otherwise record nothing.
	flagsRecorded = "01"
	// maxState bounds a tracestate that is passed on (W3C Trace Context, 3.3.1.5).
	maxState = 512
)

// New is a trace that begins here.
func New() Context { return Context{TraceID: random(16), SpanID: random(8), Flags: flagsRecorded} }

// Parse reads the header traceparent; false when it is not valid. A version above ours may have more than four parts,
// and is read as ours, as the recommendation wants. A tracestate without a traceparent has no meaning, so it is dropped
// with it; one that is too long or not printable is dropped alone.
func Parse(traceparent, tracestate string) (Context, bool) {
	parts := strings.Split(strings.TrimSpace(traceparent), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isHex(parts[0]) || parts[0] == "ff" || parts[0] == version && len(parts) != 4 {
		return Context{}, false
	}
	c := Context{TraceID: parts[1], SpanID: parts[2], Flags: parts[3]}
	if len(c.TraceID) != 32 || len(c.SpanID) != 16 || len(c.Flags) != 2 || !isHex(c.TraceID) || !isHex(c.SpanID) || !isHex(c.Flags) || zero(c.TraceID) || zero(c.SpanID) {
		return Context{}, false
	}
	if c.State = strings.TrimSpace(tracestate); len(c.State) > maxState || strings.ContainsFunc(c.State, unprintable) {
		c.State = ""
	}
	return c, true
}

// Continue is a span of ours in the trace of a request, or a trace of ours where the request names none that is valid.
func Continue(traceparent, tracestate string) Context {
	if c, ok := Parse(traceparent, tracestate); ok {
		return c.Child()
	}
	return New()
}

// Child is a span that this one made. Flags and state go on unchanged: the decision to sample is the caller's.
func (c Context) Child() Context {
	c.SpanID = random(8)
	return c
}

// Under is a span under this one, or a trace of its own where this one is not known: that of a Turn from before spans were
// kept.
func (c Context) Under() Context {
	if c.TraceID == "" {
		return New()
	}
	return c.Child()
}

// Sampled reports whether the caller records its spans, and wants those of others recorded.
func (c Context) Sampled() bool {
	flags, err := strconv.ParseUint(c.Flags, 16, 8)
	return err == nil && flags&1 == 1
}

// Traceparent is the header of what is called from this span.
func (c Context) Traceparent() string {
	return version + "-" + c.TraceID + "-" + c.SpanID + "-" + c.Flags
}

// SetHeaders gives a request the span. A header that would be empty is left out.
func (c Context) SetHeaders(h http.Header) {
	if c.TraceID == "" {
		return
	}
	h.Set("traceparent", c.Traceparent())
	if c.State != "" {
		h.Set("tracestate", c.State)
	}
}

// random is n bytes in hex, not all zero: the recommendation makes such an id invalid.
func random(n int) string {
	raw := make([]byte, n)
	for {
		_, _ = rand.Read(raw) // it never fails: crypto/rand ends the program first
		if id := hex.EncodeToString(raw); !zero(id) {
			return id
		}
	}
}

func zero(id string) bool { return strings.Trim(id, "0") == "" }

func isHex(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }
