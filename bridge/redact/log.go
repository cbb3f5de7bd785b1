// This file masks the log. It is the last look before a line is written, for secrets that reached it on a way that
// was not thought of.

package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// LogHandler masks what is logged: messages, and the values of attributes as they would be written.
func LogHandler(h slog.Handler, f *Filter) slog.Handler { return &logHandler{h, f} }

// logHandler stands before the handler that writes, so that no path of the program can log a secret of the well-known
// forms.
type logHandler struct {
	next   slog.Handler
	filter *Filter
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.filter.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs masks the attributes of a logger once, when it is made, not with every line.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return &logHandler{h.next.WithAttrs(masked), h.filter}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.next.WithGroup(name), h.filter}
}

// attr masks a value by what the handler would write of it. Keys are the program's own.
func (h *logHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.filter.Text(v.String()))
	case slog.KindGroup:
		members := make([]slog.Attr, len(v.Group()))
		for i, m := range v.Group() {
			members[i] = h.attr(m)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(members...)}
	case slog.KindAny:
		// The handler writes an error or a Stringer by its text, and anything else as JSON or by %+v. It keeps its form
		// unless a secret is in it.
		text := fmt.Sprintf("%+v", v.Any())
		if masked := h.filter.Text(text); masked != text {
			return slog.String(a.Key, masked)
		}
	default:
	}
	return slog.Attr{Key: a.Key, Value: v}
}
