// aqueduct tail: follows a run or a thread on a terminal, across restarts of the server. It uses the same routes as a
// browser.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/r3labs/sse/v2"

	"aqueduct/agui"
	"aqueduct/server/auth"
)

// tailCmd prints events with their positions, one a line. When the connection breaks it
// comes back and asks for what it has not seen.
type tailCmd struct {
	RunID  string      `arg:"" optional:"" name:"run" help:"The run: our id or the client's runId."`
	Thread string      `help:"A thread, across its runs and without end." placeholder:"ID"`
	After  int64       `help:"Position to begin after."`
	Server clientFlags `embed:""`
}

const (
	// tailFrame is the largest event taken: what a server keeps is smaller.
	tailFrame = 8 << 20
	// Both bound how soon a server that restarts is asked again.
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
)

// Run implements the command.
func (t *tailCmd) Run(ctx context.Context, to output, set *settings) error {
	address, err := t.address()
	if err != nil {
		return err
	}
	if t.Server.Insecure {
		fmt.Fprintln(to.log, "aqueduct:", insecureWarning)
	}
	token, err := t.Server.token(set.env)
	if err != nil {
		return err
	}
	return newTailer(address, token, t.After, t.RunID != "", to.out).run(ctx)
}

// address is the route of what is followed.
func (t *tailCmd) address() (string, error) {
	switch {
	case (t.RunID == "") == (t.Thread == ""):
		return "", errors.New("tail: name either a RUN or a --thread")
	case t.RunID != "":
		return strings.TrimRight(t.Server.URL, "/") + "/api/runs/" + url.PathEscape(t.RunID) + "/events", nil
	}
	return strings.TrimRight(t.Server.URL, "/") + "/api/threads/" + url.PathEscape(t.Thread) + "/events", nil
}

// tailer reads one stream over as many connections as it takes. One goroutine uses it: the library calls take from
// the connection that run waits for.
type tailer struct {
	client *sse.Client
	out    io.Writer
	ends   bool   // with a terminal event: a run, not a thread
	last   []byte // id of the last event printed
	done   bool
	failed error // of out
	moved  bool  // something was printed on this connection
	pause  time.Duration
}

// ends is whether a terminal event is the end: of a run it is, and a thread has none.
func newTailer(address string, token auth.Secret, after int64, ends bool, out io.Writer) *tailer {
	t := &tailer{client: sse.NewClient(address, sse.ClientMaxBufferSize(tailFrame)), out: out, ends: ends, pause: firstPause}
	// The library gives up on its own schedule and takes a clean end for the end; when to
	// come back is decided in run.
	// For the library every answer but 200 is an error; validate distinguishes those that end the command.
	t.client.ReconnectStrategy = neverAgain{}
	t.client.ResponseValidator = validate
	if token != "" {
		t.client.Headers["Authorization"] = "Bearer " + strings.TrimSpace(string(token))
	}
	if after > 0 {
		t.keep(strconv.AppendInt(nil, after, 10))
	}
	return t
}

// neverAgain is the library's plan of when to reconnect: not at all. A negative pause ends its loop.
type neverAgain struct{}

func (neverAgain) NextBackOff() time.Duration { return -1 }
func (neverAgain) Reset()                     {}

// refused is an answer that will not get better by asking again. It ends the command.
type refused struct{ message string }

func (r *refused) Error() string { return r.message }

// errComplete is 204: the run is over and nothing is missing.
var errComplete = errors.New("complete")

// validate judges the answer before its events are read: a refusal ends the command, a fault of the server is tried
// again.
func validate(_ *sse.Client, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return errComplete
	}
	var problem struct{ Title, Detail string }
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&problem) // a proxy's page has none
	message := fmt.Sprintf("tail: %s %s", resp.Status, problem.Detail)
	if resp.StatusCode >= http.StatusInternalServerError {
		return errors.New(message)
	}
	return &refused{message}
}

// A server that ends its answer in order may be going away, so that counts like a cut: only a terminal event, a 204
// or a refusal ends the command.
// The pause doubles up to mostPause, and begins anew once a connection has printed something.
func (t *tailer) run(ctx context.Context) error {
	for pause := t.pause; ; pause = min(2*pause, mostPause) {
		t.moved = false
		err := t.client.SubscribeRawWithContext(ctx, t.take)
		var no *refused
		switch {
		case ctx.Err() != nil, t.done, errors.Is(err, errComplete): // to be interrupted is the usual end, and no failure
			return t.failed
		case t.failed != nil:
			return t.failed
		case errors.As(err, &no):
			return no
		}
		if t.moved { // a connection that printed nothing does not count as one that works again
			pause = t.pause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// take prints one event. The library gives a block that was cut off as if it were whole: such a one is asked for
// again. A line is printed once, since the next connection asks for what comes behind the last one.
func (t *tailer) take(e *sse.Event) {
	if len(e.Data) == 0 || !json.Valid(e.Data) {
		// The library has noted the id of the cut block already, and would ask for what comes behind it.
		t.keep(t.last)
		return
	}
	if t.done || t.failed != nil {
		return
	}
	_, t.failed = fmt.Fprintf(t.out, "%s\t%s\n", e.ID, e.Data)
	// An event without an id has the one before it here (the library fills it in), which is where to go on.
	t.last, t.moved = e.ID, true
	t.done = t.ends && agui.IsTerminal(e.Data)
}

// keep sets the position the next connection asks for.
func (t *tailer) keep(id []byte) {
	t.last = id
	t.client.LastEventID.Store(id)
}
