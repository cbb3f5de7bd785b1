// Serving until the end: timeouts of the listeners, and the shutdown in the order that streams need.

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// readHeaderTime bounds how long a client may take over its headers (slowloris).
	// idleTime is how long a connection is kept on which no request is under way; streams are requests and do not
	// count.
	readHeaderTime = 10 * time.Second
	idleTime       = 2 * time.Minute
	// It leaves room for a token and the cookies of other programs on the host.
	maxHeaderBytes = 64 << 10
	// drainTime is how long answers that are being written may take at the end.
	drainTime = 10 * time.Second
)

// serveUntilDone serves until ctx ends, then lets what is being answered end. drain is called first, to cut what
// would not end by itself. Without drain, Shutdown would wait for streams that never end by themselves. What has not
// ended after drainTime is closed, so that a process manager need not kill the process.
func serveUntilDone(srv *http.Server, drain func(), listeners ...net.Listener) func(context.Context) error {
	return func(ctx context.Context) error {
		served := make(chan error, len(listeners))
		for _, ln := range listeners {
			go func() { served <- srv.Serve(ln) }()
		}
		select { // served has room for all, so that no goroutine is left behind
		case err := <-served: // a listener failed: no stream may outlive this
			drain()
			return errors.Join(err, srv.Close())
		case <-ctx.Done():
		}
		drain()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil { // the time is over, which is no failure of the server's
			err = srv.Close()
		}
		// Each goroutine gives one result. Shutdown closes the listeners at once and waits for the requests alone, so
		// all of them are there by now.
		for range listeners {
			if served := <-served; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
		}
		return err
	}
}

// secondSignal returns a context that ends with the next signal that asks the process to end.
func secondSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// reachable is the URL of a listener for programs on this machine. A listener on all addresses is reached over
// loopback.
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
