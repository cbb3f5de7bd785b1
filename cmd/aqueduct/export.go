// aqueduct export: writes the Runs of a thread, or one of them, to a cassette. It uses the same routes as any client.

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
	"time"

	"aqueduct/agui/cassette"
)

// exportCmd writes a cassette to the output.
type exportCmd struct {
	ID     string      `arg:"" optional:"" name:"run" help:"The run, our id or the client's runId; where there is no such run, the thread of that id."`
	Thread string      `help:"A thread, with all its runs that have ended." placeholder:"ID"`
	Server clientFlags `embed:""`
}

// exportPage is how many events are asked for at a time, the most that the server gives.
const exportPage = 1000

// Run implements the command. What is asked for is found before anything is written, so that a mistake leaves an empty
// file.
func (c *exportCmd) Run(ctx context.Context, to output, set *settings) error {
	if (c.ID == "") == (c.Thread == "") {
		return errors.New("export: name either a RUN or a --thread")
	}
	if c.Server.Insecure {
		fmt.Fprintln(to.log, "aqueduct:", insecureWarning)
	}
	e := exporter{server: &c.Server, env: set.env}
	if c.ID != "" {
		err := e.run(ctx, to.out, c.ID)
		if !errors.Is(err, errNoRun) {
			return e.report(to.log, err)
		}
		c.Thread = c.ID
	}
	return e.report(to.log, e.thread(ctx, to.out, c.Thread))
}

// errNoRun is what leads to looking for a thread of that name.
var errNoRun = errors.New("there is no such run")

// exporter reads the log of one server page by page.
type exporter struct {
	server *clientFlags
	env    lookup
	file   *cassette.Writer
	left   int // events of a Run that has not ended
}

// run exports one Run.
func (e *exporter) run(ctx context.Context, out io.Writer, id string) error {
	var run struct {
		ID, RunID, ThreadID string
		LastSeq             int64
	}
	err := e.server.call(ctx, e.env, http.MethodGet, "/api/runs/"+url.PathEscape(id), nil, &run)
	var no *refusal
	switch {
	case errors.As(err, &no) && no.statusCode == http.StatusNotFound:
		return errNoRun
	case err != nil:
		return err
	case run.LastSeq == 0:
		return fmt.Errorf("export: run %q has not ended; export it then", run.RunID)
	}
	e.file = cassette.NewWriter(out, cassette.Header{ThreadID: run.ThreadID, RunID: run.RunID})
	return e.log(ctx, run.ID)
}

// thread exports what has ended of a thread. Its log is read under our id of it, which a Run cannot have.
func (e *exporter) thread(ctx context.Context, out io.Writer, id string) error {
	var thread struct {
		ID, SessionID string
		LastRun       *struct{ FirstSeq int64 }
	}
	if err := e.server.call(ctx, e.env, http.MethodGet, "/api/threads/"+url.PathEscape(id), nil, &thread); err != nil {
		return err
	}
	if thread.LastRun == nil {
		return fmt.Errorf("export: thread %q has no runs", id)
	}
	e.file = cassette.NewWriter(out, cassette.Header{ThreadID: thread.ID})
	return e.log(ctx, thread.SessionID)
}

// log copies the events of a Run or a Session, page by page. The route is that of Runs for both: it takes our id of a
// Session too.
func (e *exporter) log(ctx context.Context, id string) error {
	path := "/api/runs/" + url.PathEscape(id) + "/events?limit=" + strconv.Itoa(exportPage) + "&after="
	for after := int64(0); ; {
		var page struct {
			Events []struct {
				Seq   int64
				TS    time.Time
				Event json.RawMessage
			}
			Next int64
		}
		if err := e.server.call(ctx, e.env, http.MethodGet, path+strconv.FormatInt(after, 10), nil, &page); err != nil {
			return err
		}
		for _, event := range page.Events {
			if err := e.file.Add(event.Seq, event.TS, event.Event); err != nil {
				return err
			}
		}
		// Next does not move where a Run is under way and has no more events.
		if page.Next <= after {
			break
		}
		after = page.Next
	}
	var err error
	e.left, err = e.file.Close()
	return err
}

// report prints what was written. A cassette without a Run cannot be played, so it is an error.
func (e *exporter) report(log io.Writer, err error) error {
	switch {
	case err != nil:
		return err
	case e.file.Runs == 0:
		return errors.New("export: no run has ended yet")
	}
	if e.left > 0 {
		fmt.Fprintf(log, "aqueduct: the last run has not ended: %d events were left out\n", e.left)
	}
	_, err = fmt.Fprintf(log, "exported %d runs, %d events\n", e.file.Runs, e.file.Events)
	return err
}
