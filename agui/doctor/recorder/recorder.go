// Package recorder asks an AG-UI endpoint what package doctor judges, and records the answers as they arrive. It is what
// official clients ask: a POST of a RunAgentInput, read to its end.
package recorder

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/agui/doctor"
)

const (
	// linger is how long the end of a body is waited for behind the terminal event.
	linger = 3 * time.Second
	// answerTime bounds everything but the run itself.
	answerTime = 10 * time.Second
	// mostBytes bounds what is recorded of all answers, decoded, as all of it is in memory. An answer that is longer counts as given
	// up.
	mostBytes = 64 << 20
	// chunkBytes is about what the record of one read takes besides its bytes. Reads may bring one byte each, as a compressed answer
	// of tiny blocks does.
	chunkBytes = 96
	// readBytes is the most that one read takes.
	readBytes = 32 << 10
	// stranger is an origin that no server can know.
	stranger = "https://doctor.invalid"
)

// Options are what is asked.
type Options struct {
	URL    string
	Header http.Header // of every request: credentials
	Prompt string
	// Old asks as a client from before AG-UI 1.0 does.
	Old bool
	// Origin is that of pages which are to be let in; "" when none is.
	Origin string
	// Patience is how long a run may take.
	Patience time.Duration
	// Again sends the input once more, which may be a second run.
	Again bool
}

// UncheckedError is why an endpoint cannot be examined.
type UncheckedError struct{ Reason string }

// Error implements error.
func (e *UncheckedError) Error() string { return e.Reason }

// prober is one examination. Its client has no timeout of its own: runs take their time. One goroutine uses it, and makes the
// requests one behind the other.
type prober struct {
	Options
	client *http.Client
	input  agui.RunAgentInput
	size   int // of the answers that were recorded: mostBytes bounds them together
}

// Record asks and records.
func Record(ctx context.Context, o Options) (doctor.Exchange, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: answerTime}).DialContext,
		TLSHandshakeTimeout: answerTime,
		ForceAttemptHTTP2:   true,
		// Official clients take compressed answers. The transport would ask for them by itself and hide the header.
		DisableCompression: true,
	}
	defer transport.CloseIdleConnections()
	p := &prober{Options: o, client: &http.Client{Transport: transport, CheckRedirect: sameHost}}
	p.input = agui.RunAgentInput{
		ThreadID: "doctor-" + uuid.NewString(), RunID: "doctor-" + uuid.NewString(), ProtocolVersion: agui.Version,
		State: []byte("{}"), Tools: []agui.Tool{}, Context: []agui.Context{}, ForwardedProps: []byte("{}"),
		Messages: []agui.Message{{ID: uuid.NewString(), Role: agui.RoleUser, Content: agui.Text(o.Prompt)}},
	}
	if o.Old {
		p.input.ProtocolVersion = ""
	}
	return p.record(ctx)
}

// sameHost follows redirects on the same host alone, and from https to nothing else: headers of ours are credentials.
func sameHost(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if req.URL.Host != from.Host || req.URL.Scheme != from.Scheme && from.Scheme == "https" || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// record makes the requests in turn. The preflight comes first, as in a browser: where it is refused, a run with the
// page's origin would be refused as well, and the rest could not be examined.
func (p *prober) record(ctx context.Context) (ex doctor.Exchange, err error) {
	if ex.Preflight, err = p.preflight(ctx); err != nil {
		return ex, err
	}
	origin := ""
	if ex.Preflight.Wanted && ex.Preflight.Header.Get("Access-Control-Allow-Origin") != "" {
		origin = p.Origin
	}
	body := p.input.AppendJSON(nil)
	if ex.Run, err = p.run(ctx, body, http.Header{"Origin": {origin}}); err != nil {
		return ex, err
	}
	if origin != "" {
		ex.Preflight.Post = ex.Run.Header
	}
	switch ex.Run.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return ex, &UncheckedError{fmt.Sprintf("status %d: there is no endpoint at this address, or not for this caller", ex.Run.Status)}
	}
	if ex.Malformed, err = p.malformed(ctx); err != nil {
		return ex, err
	}
	if ids := ex.Run.Positions(); p.Again && len(ids) > 0 {
		ex.AgainAfter = ids[len(ids)/2]
		ex.Again, err = p.run(ctx, body, http.Header{"Last-Event-ID": {ex.AgainAfter}})
	}
	return ex, err
}

// request is a request with the caller's headers, and more; one that is empty is left out.
func (p *prober) request(ctx context.Context, method string, body []byte, more http.Header) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.URL, bytes.NewReader(body))
	if err != nil {
		return nil, &UncheckedError{err.Error()}
	}
	for _, set := range []http.Header{{"User-Agent": {"aqueduct-doctor"}}, p.Header, more} {
		for name, values := range set {
			if values[0] != "" {
				req.Header[name] = values
			}
		}
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
	}
	return req, nil
}

// head makes a request of which the head of the answer is all that counts.
func (p *prober) head(ctx context.Context, method string, body []byte, header http.Header) (*doctor.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := p.request(ctx, method, body, header)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, &UncheckedError{err.Error()}
	}
	return &doctor.Answer{Status: resp.StatusCode, Header: resp.Header}, resp.Body.Close()
}

// preflight asks as a browser does before a page of another origin may POST JSON. A browser sends no credentials with it.
func (p *prober) preflight(ctx context.Context) (*doctor.Preflight, error) {
	ask := &doctor.Preflight{Origin: p.Origin, Wanted: p.Origin != ""}
	if !ask.Wanted {
		ask.Origin = stranger
	}
	credentials := p.Header
	p.Header = nil
	defer func() { p.Header = credentials }()
	answer, err := p.head(ctx, http.MethodOptions, nil, http.Header{
		"Origin": {ask.Origin}, "Access-Control-Request-Method": {http.MethodPost}, "Access-Control-Request-Headers": {"authorization,content-type"},
	})
	if err != nil {
		return nil, err
	}
	ask.Answer = *answer
	return ask, nil
}

// malformed sends an input whose messages are a number.
func (p *prober) malformed(ctx context.Context) (*doctor.Answer, error) {
	body := fmt.Appendf(nil, `{"threadId":%q,"runId":%q,"state":{},"messages":42,"tools":[],"context":[],"forwardedProps":{}}`, p.input.ThreadID, "doctor-"+uuid.NewString())
	answer, err := p.head(ctx, http.MethodPost, body, nil)
	var unchecked *UncheckedError
	if errors.As(err, &unchecked) && ctx.Err() == nil {
		return nil, nil // no answer: the rest can be judged without it
	}
	return answer, err
}

// run posts an input and reads the answer to its end, or for as long as patience lasts.
func (p *prober) run(ctx context.Context, body []byte, header http.Header) (*doctor.Run, error) {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	patience := time.AfterFunc(p.Patience, giveUp)
	defer patience.Stop()
	header.Set("Accept-Encoding", "gzip")
	req, err := p.request(asking, http.MethodPost, body, header)
	if err != nil {
		return nil, err
	}
	r := &recording{size: p.size, began: time.Now(), giveUp: patience, patience: p.Patience, run: &doctor.Run{
		ThreadID: p.input.ThreadID, RunID: p.input.RunID, State: p.input.State, Messages: p.input.Messages, Patience: linger,
	}}
	resp, err := p.client.Do(req)
	if err != nil {
		if asking.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %s", p.Patience)
		}
		return nil, &UncheckedError{err.Error()}
	}
	defer resp.Body.Close() // it was read, or given up
	r.run.Answer = doctor.Answer{Status: resp.StatusCode, Header: resp.Header}
	r.read(asking, resp)
	p.size = r.size
	return r.run, ctx.Err()
}

// recording is an answer being read, by the goroutine that made the request. giveUp cancels the request from outside,
// which ends the read that is under way.
type recording struct {
	run      *doctor.Run
	began    time.Time
	giveUp   *time.Timer
	patience time.Duration
	line     []byte // that has not ended yet
	size     int    // of all that is recorded, decoded
}

// read reads to the end.
func (r *recording) read(asking context.Context, resp *http.Response) {
	body := io.Reader(resp.Body)
	var err error
	if resp.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(resp.Body)
	}
	buf := make([]byte, readBytes)
	for err == nil && r.size < mostBytes {
		var n int
		n, err = body.Read(buf)
		if n > 0 {
			r.take(bytes.Clone(buf[:n]))
		}
	}
	r.run.After = time.Since(r.began)
	switch {
	case errors.Is(err, io.EOF):
		r.run.Ended = doctor.Closed
	case err == nil, asking.Err() != nil:
		r.run.Ended = doctor.GivenUp
	default:
		r.run.Ended, r.run.Cause = doctor.Broken, err.Error()
	}
}

// take keeps what one read gave. Behind a terminal event only linger is left; where another run follows on the stream,
// what was left before.
func (r *recording) take(data []byte) {
	r.run.Chunks = append(r.run.Chunks, doctor.Chunk{At: time.Since(r.began), Data: data})
	r.size += len(data) + chunkBytes
	for line := range bytes.Lines(data) { // each byte of a line without an end is copied once
		r.line = append(r.line, line...)
		if bytes.HasSuffix(line, []byte("\n")) {
			r.ended(bytes.TrimSpace(r.line))
			r.line = r.line[:0]
		}
	}
}

// ended takes a whole line. However many runs end on the stream, none of it is waited for longer than linger behind patience.
func (r *recording) ended(line []byte) {
	event, ok := bytes.CutPrefix(line, []byte("data:"))
	left := r.patience - time.Since(r.began)
	switch {
	case ok && doctor.EndsRun(event):
		r.giveUp.Reset(max(0, min(linger, left+linger)))
	case ok:
		r.giveUp.Reset(max(0, left))
	}
}
