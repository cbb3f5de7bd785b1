package main

import (
	"io"
	"log/slog"

	"aqueduct/bridge/redact"
)

// newLogger writes one line an entry, whatever is in its values, without the secrets in them.
func newLogger(format string, w io.Writer, filter *redact.Filter) *slog.Logger {
	if format == "json" {
		return slog.New(redact.LogHandler(slog.NewJSONHandler(w, nil), filter))
	}
	return slog.New(redact.LogHandler(slog.NewTextHandler(w, nil), filter))
}
