package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	// readHeaderTime bounds how long a client may take over its headers (slowloris).
	readHeaderTime = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// drainTime is how long answers that are being written may take at the end.
	drainTime = 10 * time.Second
)

// serveUntilDone serves until ctx ends, then lets what is being answered end. drain is
// called first, to cut what would not end by itself.
func serveUntilDone(srv *http.Server, drain func(), listeners ...net.Listener) func(context.Context) error {
	return func(ctx context.Context) error {
		served := make(chan error, len(listeners))
		for _, ln := range listeners {
			go func() { served <- srv.Serve(ln) }()
		}
		select {
		case err := <-served: // a listener failed: no stream may outlive this
			drain()
			return errors.Join(err, srv.Close())
		case <-ctx.Done():
		}
		drain()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		for range listeners {
			if served := <-served; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
		}
		return err
	}
}

// reachable is the URL of a listener for somebody on this machine.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
