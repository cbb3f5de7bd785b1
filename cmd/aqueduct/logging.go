package main

import (
	"io"
	"log/slog"
)

// newLogger writes one line an entry, whatever is in its values.
func newLogger(format string, w io.Writer) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
