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

// relay passes an answer on as it comes, each part flushed, and shows it to the meter. A nil error means that the answer
// was whole. hide takes the chunk with the usage out, for a caller that did not ask for it.
//
// Bytes are passed and never made anew: an upstream may send members that are not known here, and agents may depend on
// them. A stream is passed in whole events, as many as one read brings, which is also what a reverse proxy would flush; only
// an event whose end has not come yet waits for the next read. What is left when the answer breaks off goes out as it is:
// the agent must see that its last event is no whole one.
func relay(c echo.Context, resp *http.Response, m *meter, hide bool) error {
	w, rc := c.Response(), http.NewResponseController(c.Response())
	copyHeader(w.Header(), resp.Header)
	stream := isStream(resp.Header)
	if !stream && resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", resp.Header.Get("Content-Length"))
	}
	extended := time.Now()
	if err := rc.SetWriteDeadline(extended.Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, readBytes)
	var pending []byte // the beginning of an event that is not whole yet
	for {
		n, err := resp.Body.Read(buf)
		part := buf[:n]
		if stream {
			if len(pending) > 0 {
				part = append(pending, part...)
			}
			part, pending = whole(part)
			if len(pending) > maxEvent || err != nil {
				part, pending = append(part, pending...), nil // as it came
			}
			m.stream(part)
			if hide {
				part = withoutUsage(part)
			}
		} else {
			m.plain(part)
		}
		if len(part) > 0 {
			if now := time.Now(); now.Sub(extended) > extendEvery {
				extended = now
				_ = rc.SetWriteDeadline(now.Add(writeTime))
			}
			if _, err := w.Write(part); err != nil {
				return errLeft
			}
			if err := rc.Flush(); err != nil {
				return errLeft
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// whole parts what was read behind the last event that is whole. A blank line ends an event. Both line ends are looked for,
// because upstreams differ; a lone CR, which the standard also allows, is in none of them.
func whole(text []byte) (events, rest []byte) {
	if bytes.HasSuffix(text, []byte("\n\n")) { // nearly always
		return text, nil
	}
	end := 0
	for _, blank := range []string{"\n\n", "\r\n\r\n"} {
		if i := bytes.LastIndex(text, []byte(blank)); i >= 0 {
			end = max(end, i+len(blank))
		}
	}
	return text[:end:end], bytes.Clone(text[end:])
}

// withoutUsage takes the chunk out that has the usage and no choices. It is the last one, so most parts do not have it.
func withoutUsage(events []byte) []byte {
	if !counted(events) {
		return events
	}
	var kept []byte
	for len(events) > 0 {
		event := events
		if i := bytes.Index(events, []byte("\n\n")); i >= 0 {
			event = events[:i+2]
		} else if i := bytes.Index(events, []byte("\r\n\r\n")); i >= 0 {
			event = events[:i+4]
		}
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
