package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// surfaceFlags say what is served beside the API.
type surfaceFlags struct {
	NoPage        bool   `help:"Do not serve the page at /."`
	MetricsListen string `help:"Address of a listener of its own that serves /metrics and nothing else, without a token: for a scraper on a network that only operators reach. At --listen /metrics is for operators' tokens either way." placeholder:"ADDRESS"`
}

// serveMetrics serves /metrics on a listener of its own, where one is given.
func (f surfaceFlags) serveMetrics(on *stage, metrics http.Handler, log *slog.Logger) error {
	if f.MetricsListen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", f.MetricsListen)
	if err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	on.run("metrics", func(ctx context.Context) error { return serveUntilDone(srv, ln, func() {})(ctx) })
	log.Info("serving metrics", slog.String("address", ln.Addr().String()))
	return nil
}
