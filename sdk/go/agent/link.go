// This file makes the requests to Aqueduct. What is tried again is what may be: a read, or a call with a key, by
// which the server knows a repetition. A status that means "later", and a connection that broke, are tried until
// patience is over; every other answer is one.

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// patience is how long a server may be unreachable, or answer that it cannot now, before that is an error.
	patience = time.Minute
	// firstPause and lastPause bound what lies between two tries; each pause is twice the one before.
	firstPause, lastPause = 200 * time.Millisecond, 5 * time.Second
	// maxAnswer is the most bytes that are read of an answer: an entry of the context store has 16 MiB, a tool's result less.
	maxAnswer = 64 << 20
)

// unreachable is what remains when Aqueduct does not answer.
var unreachable = &Error{Code: "unreachable", Message: "Aqueduct could not be reached, so what became of the call is not known."}

// errNoBase is a call that did not come from Aqueduct.
var errNoBase = errors.New("no address of Aqueduct: it sends it as x-aqueduct-base-url")

// link is where Aqueduct is, and the key to it for one run.
type link struct{ base, token, trace string }

// whole is an answer that was read to its end. Status 0 is a connection that broke: of what was sent nothing is
// known.
type whole struct {
	status int
	header http.Header
	raw    []byte
}

// send sends a request, and gives the beginning of its answer.
func (l link) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	if !strings.HasPrefix(l.base, "http") {
		return nil, errNoBase
	}
	req, err := http.NewRequestWithContext(ctx, method, l.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	if l.trace != "" {
		req.Header.Set("traceparent", l.trace)
	}
	return http.DefaultClient.Do(req)
}

// once is one request and its whole answer, within a time. A time that is over counts as a connection that broke; ctx
// that has ended is an error.
func (l link) once(ctx context.Context, within time.Duration, method, path string, header http.Header, body []byte) (whole, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	resp, err := l.send(bounded, method, path, header, body)
	if err != nil {
		return whole{}, lasting(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return whole{}, lasting(ctx, err)
	}
	return whole{resp.StatusCode, resp.Header, raw}, nil
}

// lasting is an error that another try would not mend: the caller has left, or there is no address. It is nil where a
// connection broke.
func lasting(ctx context.Context, err error) error {
	if errors.Is(err, errNoBase) {
		return err
	}
	return context.Cause(ctx)
}

// post sends JSON until there is an answer. What is sent must be the same call however often it comes.
func (l link) post(ctx context.Context, within time.Duration, path string, body any) (whole, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return whole{}, err
	}
	for tries := newTries(); ; {
		got, err := l.once(ctx, within, http.MethodPost, path, http.Header{"Content-Type": {"application/json"}}, raw)
		if err != nil || got.status != 0 && !passing(got.status) {
			return got, err
		}
		if err := tries.wait(ctx); err != nil {
			return whole{}, err
		}
	}
}

// passing is whether a status means nothing but "later".
func passing(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// refusal is what an answer means that is no success.
func refusal(status int, raw []byte) error {
	if status == 0 {
		return unreachable
	}
	var p struct{ Code, Title, Detail string }
	_ = json.Unmarshal(raw, &p) // a gateway's page has none of them
	e := &Error{Code: p.Code, Message: p.Detail}
	if e.Code == "" {
		e.Code = "http_" + strconv.Itoa(status)
	}
	if e.Message == "" {
		e.Message = p.Title
	}
	if e.Message == "" {
		e.Message = "Aqueduct answered HTTP " + strconv.Itoa(status) + "."
	}
	return e
}

// tries are the pauses between tries, until patience has passed since the last progress. They are of one operation;
// each begins anew.
type tries struct {
	pause time.Duration
	until time.Time
}

func newTries() *tries { return &tries{firstPause, time.Now().Add(patience)} }

func (t *tries) progress() { *t = *newTries() }

// wait waits for the next try.
func (t *tries) wait(ctx context.Context) error {
	if time.Now().Add(t.pause).After(t.until) {
		return unreachable
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(t.pause):
		t.pause = min(lastPause, 2*t.pause)
		return nil
	}
}

// keys makes keys for calls that name none: of the call's content and of how many such calls came before in this run of the
// function. So a function that is called again after an answer repeats no call, but gets what the call gave.
type keys struct {
	mu   sync.Mutex
	seen map[string]int
}

// next is the key of the next call of that content.
func (k *keys) next(call ...any) (string, error) {
	raw, err := json.Marshal(call)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	kind := hex.EncodeToString(sum[:12])
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = map[string]int{}
	}
	k.seen[kind]++
	return "sdk-" + kind + "-" + strconv.Itoa(k.seen[kind]), nil
}
