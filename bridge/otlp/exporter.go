// Package otlp exports what is on record of Turns to a collector, as spans of OpenTelemetry. A Turn is exported when it has
// ended, from its Records: nothing of it is held in memory while it goes on, and what a dead replica had begun is exported
// whole by the one that ends it. Nothing waits for a collector: the engine hands over an id, and a queue that is full
// drops it and counts that.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"aqueduct/store"
)

const (
	// mostWaiting bounds the Turns that wait to be exported: an id each. It is what a busy server ends in the minute that a
	// collector restarts.
	mostWaiting = 8192
	// settleTime is how long after its end a Turn is read: the end of a model call that its agent left is on record a moment
	// later.
	settleTime = time.Second
	// sendTime bounds the attempts of one request, and readTime reading one Turn.
	sendTime = 10 * time.Second
	readTime = 10 * time.Second
	// batchTurns is how many Turns go out in one request. A collector may take a second for each, and a busy server ends hundreds
	// in that time; a Turn has some ten spans of a few hundred bytes.
	batchTurns = 128
	// flushTime is how long a server that ends goes on exporting what waits.
	flushTime = 5 * time.Second
	// tracesPath is where a collector takes spans (OTLP/HTTP, 1.2).
	tracesPath = "/v1/traces"
)

// Reader is what is read of a Turn.
type Reader interface {
	Turn(ctx context.Context, in store.Scope, id string) (store.Turn, error)
	RunsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.Run, error)
	RecordsOfTurn(ctx context.Context, in store.Scope, turnID string, page store.Page) ([]store.Record, error)
}

// Outcome is what became of a Turn.
type Outcome string

// The outcomes.
const (
	Exported  Outcome = "exported"
	Unsampled Outcome = "unsampled" // its trace is not recorded, by the traceparent that it came with
	Failed    Outcome = "failed"    // the collector did not take it, or it could not be read
	Dropped   Outcome = "dropped"   // too many waited
)

// Config is what an Exporter needs.
type Config struct {
	// Endpoint is a collector's base URL, or the whole URL of its traces.
	Endpoint string
	// Client is the way out to it.
	Client *http.Client
	Store  Reader
	Logger *slog.Logger
	// Version and Replica describe this server in the spans' resource.
	Version, Replica string
	// Count is called with what became of each Turn; it must be quick.
	Count func(Outcome)
}

// Exporter sends Turns to a collector. TurnEnded may be called by any goroutine; held and failing are of Run's alone.
type Exporter struct {
	cfg     Config
	waiting chan ended
	send    *otlptrace.Exporter
	made    *resource.Resource
	held    *ended // taken from waiting before it had settled
	failing bool   // the last one failed: only the first of a row is logged
}

// ended is a Turn that waits.
type ended struct {
	turnID string
	at     time.Time
}

// New makes an Exporter; nothing is sent until Run. Headers, and with them credentials, are those of
// OTEL_EXPORTER_OTLP_HEADERS or OTEL_EXPORTER_OTLP_TRACES_HEADERS, which the library reads; so are the name of the service
// and further attributes (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
func New(cfg Config) (*Exporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("otlp: %q is not the URL of a collector", cfg.Endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	made, err := resource.Merge(resource.NewSchemaless(
		attribute.String("service.name", "aqueduct"), attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Replica),
	), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	send := otlptrace.NewUnstarted(otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithHTTPClient(cfg.Client), otlptracehttp.WithTimeout(sendTime),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: 200 * time.Millisecond, MaxInterval: 2 * time.Second, MaxElapsedTime: sendTime}),
	))
	return &Exporter{cfg: cfg, waiting: make(chan ended, mostWaiting), send: send, made: made}, nil
}

// TurnEnded takes a Turn that has ended. It never waits.
func (e *Exporter) TurnEnded(turnID string) {
	select {
	case e.waiting <- ended{turnID, time.Now()}:
	default:
		e.cfg.Count(Dropped)
	}
}

// Run exports until ctx ends, and then what still waits, for flushTime at most. What is left after that is dropped.
//
// One goroutine exports, so a collector gets the Turns of a replica in the order in which they ended, and never two
// requests at once.
func (e *Exporter) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if t, ok := e.next(ctx); ok {
			e.settle(ctx, t)
			e.export(context.WithoutCancel(ctx), e.batch(t, ctx.Err() != nil))
		}
	}
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	for {
		t, ok := e.next(ctx)
		switch {
		case !ok:
			return e.send.Shutdown(over)
		case over.Err() != nil:
			e.cfg.Count(Dropped)
		default:
			e.export(over, e.batch(t, true))
		}
	}
}

// next is the Turn that has waited longest; false where none waits and ctx has ended.
func (e *Exporter) next(ctx context.Context) (t ended, ok bool) {
	if e.held != nil {
		t, e.held = *e.held, nil
		return t, true
	}
	select {
	case t = <-e.waiting:
		return t, true
	default:
	}
	select {
	case t = <-e.waiting:
		return t, true
	case <-ctx.Done():
		return t, false
	}
}

// settle waits until a Turn's Records are complete, or the server ends.
func (e *Exporter) settle(ctx context.Context, t ended) {
	select {
	case <-time.After(settleTime - time.Since(t.at)):
	case <-ctx.Done():
	}
}

// batch is a Turn, and those behind it that have settled as well, or all of them where there is no time. Turns wait in the order
// in which they ended, so behind one that has not settled none has.
func (e *Exporter) batch(first ended, all bool) (turnIDs []string) {
	turnIDs = []string{first.turnID}
	for len(turnIDs) < batchTurns {
		select {
		case t := <-e.waiting:
			if !all && time.Since(t.at) < settleTime {
				e.held = &t
				return turnIDs
			}
			turnIDs = append(turnIDs, t.turnID)
		default:
			return turnIDs
		}
	}
	return turnIDs
}

// export reads Turns and sends them in one request. What fails is not tried again: behind it wait others, and what is on record
// stays on record.
func (e *Exporter) export(ctx context.Context, turnIDs []string) {
	var all []sdktrace.ReadOnlySpan
	var last error
	sent := 0
	for _, id := range turnIDs {
		spans, err := e.spans(ctx, id)
		switch {
		case err != nil:
			last = err
			e.cfg.Count(Failed)
		case len(spans) == 0:
			e.cfg.Count(Unsampled)
		default:
			all = append(all, spans...)
			sent++
		}
	}
	if sent > 0 {
		outcome := Exported
		ctx, cancel := context.WithTimeout(ctx, sendTime)
		defer cancel()
		if err := e.send.ExportSpans(ctx, all); err != nil {
			last, outcome = err, Failed
		}
		for range sent {
			e.cfg.Count(outcome)
		}
	}
	e.report(last, sent > 0)
}

// report writes the first failure of a row to the log, and the first success behind it.
func (e *Exporter) report(err error, sent bool) {
	switch {
	case err != nil && !e.failing:
		e.cfg.Logger.Warn("spans are not exported", slog.Any("error", err))
	case err == nil && sent && e.failing:
		e.cfg.Logger.Info("spans are exported again")
	}
	e.failing = err != nil || e.failing && !sent
}

// spans reads a Turn and makes its spans.
func (e *Exporter) spans(ctx context.Context, turnID string) ([]sdktrace.ReadOnlySpan, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	t, err := e.read(ctx, turnID)
	if err != nil {
		return nil, err
	}
	return made(ctx, t.spans(), e.made), nil
}

// read reads what is on record of a Turn. Records of other sources (an agent's frames) are passed over as they come:
// there may be very many, and they are texts.
func (e *Exporter) read(ctx context.Context, turnID string) (t turn, err error) {
	if t.row, err = e.cfg.Store.Turn(ctx, store.System(), turnID); err != nil {
		return t, err
	}
	if t.runs, err = e.cfg.Store.RunsOfTurn(ctx, store.System(), turnID); err != nil {
		return t, err
	}
	for page := (store.Page{Limit: store.MaxPageLimit}); ; {
		records, err := e.cfg.Store.RecordsOfTurn(ctx, store.System(), turnID, page)
		if err != nil {
			return t, err
		}
		for _, r := range records {
			if r.Source == store.SourcePlatform {
				t.records = append(t.records, r)
			}
		}
		if len(records) < page.Size() {
			return t, nil
		}
		page.After = records[len(records)-1].ID
	}
}
