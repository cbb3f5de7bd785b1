// aqueduct replay: serves a cassette as a live AG-UI endpoint, to this machine alone.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"

	"aqueduct/agui/cassette"
	"aqueduct/internal/pace"
)

// replayCmd plays a cassette until it is interrupted.
type replayCmd struct {
	File       string     `arg:"" type:"existingfile" help:"The cassette, as aqueduct export wrote it."`
	Speed      pace.Speed `default:"1" help:"By how much the pauses are divided: 1, 10, any number, or max for none at all." placeholder:"N"`
	Listen     string     `default:"127.0.0.1:0" help:"Loopback address and port; port 0 is a free one." placeholder:"ADDRESS"`
	CORSOrigin []string   `name:"cors-origin" help:"Origin whose pages may call beside those of this machine; repeatable." placeholder:"ORIGIN"`
}

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, to output) error {
	tape, err := c.read()
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(c.Listen)
	// A cassette is served without a credential, so no other machine may reach it.
	if err != nil || !onThisMachine(host) {
		return fmt.Errorf("--listen %s: must be a loopback address with a port, such as 127.0.0.1:8090", c.Listen)
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(to.out, "listening on %s/api/agui/chat\n", reachable(ln.Addr()))
	fmt.Fprintf(to.log, "%s: %d runs, %d events\n", c.File, len(tape.Runs), tape.Events)
	playing, cut := context.WithCancel(context.WithoutCancel(ctx))
	srv := &http.Server{
		Handler:           c.guard(cassette.NewPlayer(tape, c.Speed)),
		ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return playing },
	}
	return serveUntilDone(srv, cut, ln)(ctx)
}

// read reads the file.
func (c *replayCmd) read() (*cassette.Tape, error) {
	file, err := os.Open(c.File)
	if err != nil {
		return nil, err
	}
	tape, err := cassette.Read(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.File, err)
	}
	return tape, errors.Join(err, file.Close())
}

// guard refuses names of others that point at this machine (DNS rebinding), and lets pages of this machine and of
// --cors-origin read the answers.
func (c *replayCmd) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !onThisMachine((&url.URL{Host: r.Host}).Hostname()) {
			http.Error(w, "this host is not served", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || !onThisMachine(u.Hostname()) && !slices.Contains(c.CORSOrigin, origin) {
				http.Error(w, "pages of this origin may not call; see --cors-origin", http.StatusForbidden)
				return
			}
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
		}
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", http.MethodPost)
			// There is nothing that a header could open: whatever the page sends with its requests is allowed.
			h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
