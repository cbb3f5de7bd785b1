// The log: its two forms, without secrets and without characters that would forge a line.

package main

import (
	"io"
	"log/slog"

	"aqueduct/bridge/redact"
)

// newLogger writes one line an entry, whatever is in its values, without the secrets in them. Values of agents and
// clients get into the log, and none of them may look like a line of its own: slog's text quotes what is not printable, and its
// JSON leaves that to the terminal.
func newLogger(format string, w io.Writer, filter *redact.Filter) *slog.Logger {
	if format == "json" {
		return slog.New(redact.LogHandler(slog.NewJSONHandler(onTerminal(w), nil), filter))
	}
	return slog.New(redact.LogHandler(slog.NewTextHandler(w, nil), filter))
}
