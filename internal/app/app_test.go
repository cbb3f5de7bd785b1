package app_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"aqueduct/bridge"
	"aqueduct/internal/app"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func newApp(t *testing.T, name string, st store.Store) *app.App {
	t.Helper()
	a, err := app.New(app.Config{
		Store: st, Broker: storetest.Broker(), Name: name, Logger: slog.New(slog.DiscardHandler), Auth: auth.None(), Agents: bridge.NewDirectory(), Metrics: server.NewMetrics(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newStore(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// TestEndsFromTheTop: the edge ends before what the program runs beside the agents, and the replica is fenced after both.
func TestEndsFromTheTop(t *testing.T) {
	t.Parallel()
	st := newStore(t)
	a := newApp(t, "x", st)
	ctx, cancel := context.WithCancel(t.Context())
	var ended []string
	part := func(name string, begin func()) app.Part {
		return app.Part{Name: name, Run: func(ctx context.Context) error {
			begin()
			<-ctx.Done()
			if err := st.Beat(t.Context(), a.Replica); err != nil {
				t.Errorf("at the end of %s: %v", name, err)
			}
			ended = append(ended, name)
			return nil
		}}
	}
	if err := a.Run(ctx, []app.Part{part("beside", func() {})}, []app.Part{part("edge", cancel)}); err != nil {
		t.Error(err)
	}
	if want := []string{"edge", "beside"}; !slices.Equal(ended, want) {
		t.Errorf("ended in the order %v, want %v", ended, want)
	}
	if err := st.Beat(t.Context(), a.Replica); !errors.Is(err, store.ErrFenced) {
		t.Errorf("after the end: %v", err)
	}
}

// TestPartEndsTheServer: a part that returns, with or without an error, ends the others, and Run names it.
func TestPartEndsTheServer(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, err := range map[string]error{"fails": broken, "just ends": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newApp(t, name, newStore(t)).Run(t.Context(), nil, []app.Part{{Name: "listener", Run: func(context.Context) error { return err }}})
			var failed *app.Failure
			if !errors.As(got, &failed) || failed.Part != "listener" || err != nil && !errors.Is(got, err) {
				t.Errorf("%v", got)
			}
		})
	}
}
