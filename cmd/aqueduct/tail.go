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
	"gopkg.in/cenkalti/backoff.v1"

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
	tailFrame  = 8 << 20
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
)

// Run implements the command.
func (t *tailCmd) Run(ctx context.Context, to output, set *settings) error {
	address, err := t.address()
	if err != nil {
		return err
	}
	token, err := t.Server.token(set.env)
	if err != nil {
		return err
	}
	return newTailer(address, token, t.After, t.RunID != "", to.out).run(ctx)
}

func (t *tailCmd) address() (string, error) {
	switch {
	case (t.RunID == "") == (t.Thread == ""):
		return "", errors.New("tail: name either a RUN or a --thread")
	case t.RunID != "":
		return strings.TrimRight(t.Server.URL, "/") + "/api/runs/" + url.PathEscape(t.RunID) + "/events", nil
	}
	return strings.TrimRight(t.Server.URL, "/") + "/api/threads/" + url.PathEscape(t.Thread) + "/events", nil
}

// tailer reads one stream over as many connections as it takes.
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

func newTailer(address string, token auth.Secret, after int64, ends bool, out io.Writer) *tailer {
	t := &tailer{client: sse.NewClient(address, sse.ClientMaxBufferSize(tailFrame)), out: out, ends: ends, pause: firstPause}
	// The library gives up on its own schedule and takes a clean end for the end; when to
	// come back is decided in run.
	t.client.ReconnectStrategy = &backoff.StopBackOff{}
	t.client.ResponseValidator = validate
	if token != "" {
		t.client.Headers["Authorization"] = "Bearer " + strings.TrimSpace(string(token))
	}
	if after > 0 {
		t.keep(strconv.AppendInt(nil, after, 10))
	}
	return t
}

// refused is an answer that will not get better by asking again.
type refused struct{ message string }

func (r *refused) Error() string { return r.message }

// errComplete is 204: the run is over and nothing is missing.
var errComplete = errors.New("complete")

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

func (t *tailer) run(ctx context.Context) error {
	for pause := t.pause; ; pause = min(2*pause, mostPause) {
		t.moved = false
		err := t.client.SubscribeRawWithContext(ctx, t.take)
		var no *refused
		switch {
		case ctx.Err() != nil, t.done, errors.Is(err, errComplete):
			return t.failed
		case t.failed != nil:
			return t.failed
		case errors.As(err, &no):
			return no
		}
		if t.moved {
			pause = t.pause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// take prints one event. The library gives a block that was cut off as if it were whole:
// such a one is asked for again.
func (t *tailer) take(e *sse.Event) {
	if len(e.Data) == 0 || !json.Valid(e.Data) {
		t.keep(t.last)
		return
	}
	if t.done || t.failed != nil {
		return
	}
	_, t.failed = fmt.Fprintf(t.out, "%s\t%s\n", e.ID, e.Data)
	t.last, t.moved = e.ID, true
	t.done = t.ends && agui.IsTerminal(e.Data)
}

// keep sets the position the next connection asks for.
func (t *tailer) keep(id []byte) {
	t.last = id
	t.client.LastEventID.Store(id)
}
