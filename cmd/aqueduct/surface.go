// What is served beside the API: the page, and /metrics on a listener of its own.

package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"aqueduct/internal/app"
)

// surfaceFlags choose what is served beside the API. An installation behind a frontend of its own needs no page.
type surfaceFlags struct {
	NoPage        bool   `help:"Do not serve the page at /."`
	MetricsListen string `help:"Address of a listener of its own that serves /metrics and nothing else, without a token: for a scraper on a network that only operators reach. At --listen /metrics is for operators' tokens either way." placeholder:"ADDRESS"`
}

// serveMetrics serves /metrics on a listener of its own. It has no guard and no tokens, which is why it is another
// listener and never the main one.
func (f surfaceFlags) serveMetrics(metrics http.Handler, log *slog.Logger) (app.Part, error) {
	ln, err := net.Listen("tcp", f.MetricsListen)
	// It is opened before any part runs, so that an address in use ends the start.
	if err != nil {
		return app.Part{}, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.Info("serving metrics", slog.String("address", ln.Addr().String()))
	return app.Part{Name: "metrics", Run: serveUntilDone(srv, func() {}, ln)}, nil
}
