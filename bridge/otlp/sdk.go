// This file is the border to OpenTelemetry's SDK, which is made for spans that are under way. Ours are over when they
// are made, and have their ids; spans.go makes them without the SDK, so that they can be tried as data.

package otlp

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// made makes spans of the SDK. The SDK makes its spans by starting and ending them, so each is started with the ids and
// the time that it had, and ended at once; collected takes what comes of it. A provider for each Turn shares nothing
// with others and is gone with it.
func made(ctx context.Context, spans []*span, of *resource.Resource) []sdktrace.ReadOnlySpan {
	taken := new(collected)
	ids := new(given)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(of), sdktrace.WithIDGenerator(ids), sdktrace.WithSpanProcessor(taken), sdktrace.WithSampler(sdktrace.AlwaysSample()),
	)
	tracer := provider.Tracer("aqueduct")
	for _, s := range spans {
		ids.of(s)
		_, one := tracer.Start(api.ContextWithRemoteSpanContext(ctx, s.under()), s.name,
			api.WithTimestamp(s.from), api.WithSpanKind(s.kind), api.WithAttributes(s.attributes...))
		for _, e := range s.events {
			one.AddEvent(e.name, api.WithTimestamp(e.at), api.WithAttributes(e.attributes...))
		}
		if s.failed != "" {
			one.SetStatus(codes.Error, s.failed)
		}
		one.End(api.WithTimestamp(s.to))
	}
	return taken.spans
}

// under is the context that a span is started in: its parent, or none where its trace begins with it.
func (s *span) under() api.SpanContext {
	if s.parent == "" {
		return api.SpanContext{}
	}
	// Both are hex of the right length: they were parsed, or derived.
	traceID, _ := api.TraceIDFromHex(s.traceID)
	spanID, _ := api.SpanIDFromHex(s.parent)
	state, _ := api.ParseTraceState(s.state) // one that is not valid is left out
	return api.NewSpanContext(api.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: api.FlagsSampled, TraceState: state, Remote: true})
}

// given gives the SDK the ids that a span has already. made sets those of a span before it starts it, on one
// goroutine, so nothing is locked.
type given struct {
	traceID api.TraceID
	spanID  api.SpanID
}

// of sets the ids of the span that is started next.
func (g *given) of(s *span) {
	g.traceID, _ = api.TraceIDFromHex(s.traceID)
	g.spanID, _ = api.SpanIDFromHex(s.id)
}

// NewIDs implements sdktrace.IDGenerator.
func (g *given) NewIDs(context.Context) (api.TraceID, api.SpanID) { return g.traceID, g.spanID }

// NewSpanID implements sdktrace.IDGenerator.
func (g *given) NewSpanID(context.Context, api.TraceID) api.SpanID { return g.spanID }

// collected is the processor that takes spans which have ended.
type collected struct{ spans []sdktrace.ReadOnlySpan }

// OnStart implements sdktrace.SpanProcessor.
func (*collected) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (c *collected) OnEnd(s sdktrace.ReadOnlySpan) { c.spans = append(c.spans, s) }

// Shutdown implements sdktrace.SpanProcessor.
func (*collected) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (*collected) ForceFlush(context.Context) error { return nil }
