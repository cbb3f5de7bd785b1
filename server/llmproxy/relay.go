package llmproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// readBytes is how much of an answer is read at once.
	readBytes = 32 << 10
	// writeTime is how long one write may wait for the agent to read.
	writeTime = 30 * time.Second
	// extendEvery is how often that is set anew: at each of hundreds of parts a second it would cost as much as reading them.
	extendEvery = time.Second
)

// errLeft is a caller that does not take the answer.
var errLeft = errors.New("llmproxy: the caller has left")

// passed are the headers of an upstream's answer that the caller gets, beside those that begin with passedPrefixes.
var (
	passed         = []string{"Content-Type", "Retry-After", "X-Request-Id"}
	passedPrefixes = []string{"X-Ratelimit-", "Openai-"}
)

func copyHeader(to, from http.Header) {
	for name, values := range from {
		for _, prefix := range passedPrefixes {
			if strings.HasPrefix(name, prefix) {
				to[name] = values
			}
		}
	}
	for _, name := range passed {
		if values := from.Values(name); len(values) > 0 {
			to[name] = values
		}
	}
	to.Set("Cache-Control", "no-store")
}

func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}

// answer is an upstream's answer on its way to the agent. It belongs to the goroutine of its request.
type answer struct {
	to    io.Writer
	rc    *http.ResponseController
	meter *meter
	// end keeps the end of the call, once.
	end      func(error)
	extended time.Time // when the time for writing was set

	stream bool
	hide   bool   // the chunk with the usage: the caller did not ask for it
	held   []byte // what came and may not pass yet
	looked int    // how much of what is held has no end of an event, so that each byte is looked at once
}

// relay passes an answer on as it comes, each part flushed, and shows it to the meter. A nil error means that the answer
// was whole. hide takes the chunk with the usage out, for a caller that did not ask for it.
//
// Bytes are passed and never made anew: an upstream may send members that are not known here, and agents may depend on
// them. A stream is passed in whole events, as many as one read brings, which is also what a reverse proxy would flush; only
// an event whose end has not come yet waits for the next read. What is left when the answer breaks off goes out as it is:
// the agent must see that its last event is no whole one.
//
// What tells the agent that it has all goes out behind the commit of the call's end (end): an agent that ends its Turn in
// that moment would otherwise be ahead of it, and the Turn's usage would lack the call. Nothing before that waits.
func relay(c echo.Context, resp *http.Response, m *meter, hide bool, end func(error)) error {
	w := c.Response()
	copyHeader(w.Header(), resp.Header)
	a := &answer{to: w, rc: http.NewResponseController(w), meter: m, end: end, stream: isStream(resp.Header), hide: hide, extended: time.Now()}
	if !a.stream && resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", resp.Header.Get("Content-Length"))
	}
	if err := a.rc.SetWriteDeadline(a.extended.Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.WriteHeader(resp.StatusCode)
	for buf := make([]byte, readBytes); ; {
		n, err := resp.Body.Read(buf)
		if failed := a.take(buf[:n], err); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take passes on what a read brought, and with an error of it all that is left. With the last part the end is kept first.
func (a *answer) take(part []byte, over error) error {
	var last []byte
	a.meter.whole = errors.Is(over, io.EOF)
	if a.stream {
		part, last = a.events(part, over != nil)
	} else {
		part = a.plain(part)
	}
	if err := a.write(part); err != nil {
		return err
	}
	if over != nil {
		last = append(last, a.held...)
	}
	switch {
	case over != nil && !errors.Is(over, io.EOF):
		a.end(over)
	case over != nil || len(last) > 0:
		a.end(nil)
	}
	return a.write(last)
}

// events gives the whole events of a stream, and apart from them the one that ends the answer, with what is behind it.
func (a *answer) events(part []byte, over bool) (events, last []byte) {
	if len(a.held) > 0 || !bytes.HasSuffix(part, []byte("\n\n")) { // which it has nearly always
		a.held = append(a.held, part...)
		end := whole(a.held, a.looked)
		switch {
		case over || len(a.held)-end > maxEvent:
			part, a.held, a.looked = a.held, nil, 0 // as it came
		case end == 0:
			a.looked = len(a.held)
			return nil, nil
		default:
			part, a.held, a.looked = a.held[:end:end], bytes.Clone(a.held[end:]), len(a.held)-end
		}
	}
	a.meter.stream(part)
	if a.hide {
		part = withoutUsage(part)
	}
	i := final(a.meter.route, part)
	return part[:i], part[i:]
}

// plain gives what may pass of an answer that is no stream: all but its last byte so far that is no space, and what is behind
// that. Without it no JSON is whole.
func (a *answer) plain(part []byte) []byte {
	a.meter.plain(part)
	if len(a.held) > 0 {
		part = append(a.held, part...)
	}
	end := len(bytes.TrimRight(part, " \t\r\n"))
	if end == 0 || len(part)-end > readBytes { // an upstream that keeps the connection awake
		a.held = nil
		return part
	}
	a.held = bytes.Clone(part[end-1:])
	return part[:end-1]
}

// write sends a part. At each of hundreds a second a new deadline would cost as much as reading them.
func (a *answer) write(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	if now := time.Now(); now.Sub(a.extended) > extendEvery {
		a.extended = now
		_ = a.rc.SetWriteDeadline(now.Add(writeTime))
	}
	if _, err := a.to.Write(part); err != nil {
		return errLeft
	}
	if err := a.rc.Flush(); err != nil {
		return errLeft
	}
	return nil
}

// What the last events of streams have.
var (
	chatEnds     = []string{"[DONE]"}
	responseEnds = []string{`"response.completed"`, `"response.incomplete"`, `"response.failed"`, "[DONE]"}
)

// final is where the event begins that ends an answer, and the length of the events where none does. The names are looked for
// first, since nearly no part has one; that one stands in its place is found out then: an agent's own words may have it too,
// and a call that ended with them would be free.
func final(route string, events []byte) int {
	names := chatEnds
	if route == routeResponses {
		names = responseEnds
	}
	for _, name := range names {
		if !bytes.Contains(events, []byte(name)) {
			continue
		}
		for from := 0; from < len(events); {
			event := firstEvent(events[from:])
			if ends(event, name) {
				return from
			}
			from += len(event)
		}
	}
	return len(events)
}

// firstEvent is the first event with its blank line, or all where there is no such line.
func firstEvent(events []byte) []byte {
	for i := 0; ; {
		line := bytes.IndexByte(events[i:], '\n')
		if line < 0 {
			return events
		}
		i += line + 1
		for _, blank := range []string{"\n", "\r\n"} {
			if bytes.HasPrefix(events[i:], []byte(blank)) {
				return events[:i+len(blank)]
			}
		}
	}
}

// ends reports whether an event is the last one of its answer: the word of chats, or the object of responses with the type.
func ends(event []byte, name string) bool {
	at := bytes.Index(event, []byte("data:"))
	if at != 0 && (at < 0 || event[at-1] != '\n') {
		return false
	}
	data := bytes.TrimSpace(event[at+len("data:"):])
	if name == "[DONE]" {
		return string(data) == name
	}
	var object struct{ Type json.RawMessage }
	return json.Unmarshal(data, &object) == nil && string(object.Type) == name
}

// whole is where the last event ends that is whole; in the first looked bytes none does. A blank line ends an event. Both line
// ends are looked for, because upstreams differ; a lone CR, which the standard also allows, is in none of them.
func whole(text []byte, looked int) (end int) {
	from := max(looked-len("\r\n\r"), 0)
	for _, blank := range []string{"\n\n", "\r\n\r\n"} {
		if i := bytes.LastIndex(text[from:], []byte(blank)); i >= 0 {
			end = max(end, from+i+len(blank))
		}
	}
	return end
}

// withoutUsage takes the chunk out that has the usage and no choices. It is the last one, so most parts do not have it.
func withoutUsage(events []byte) []byte {
	if !counted(events) {
		return events
	}
	var kept []byte
	for len(events) > 0 {
		event := firstEvent(events)
		events = events[len(event):]
		if !onlyUsage(event) {
			kept = append(kept, event...)
		}
	}
	return kept
}

// onlyUsage reports whether an event is the chunk that include_usage adds. Its choices are there and empty. Some upstreams
// put the usage into the last chunk that has a choice; that one has to stay, and the usage in it does no harm.
func onlyUsage(event []byte) bool {
	_, data, found := bytes.Cut(event, []byte("data:"))
	if !found {
		return false
	}
	var chunk struct {
		Choices []json.RawMessage `json:"choices"`
		Usage   *usage            `json:"usage"`
	}
	return json.Unmarshal(data, &chunk) == nil && chunk.Usage != nil && chunk.Choices != nil && len(chunk.Choices) == 0
}
