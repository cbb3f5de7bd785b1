package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

// beatEvery is how often a replica shows that it lives; others take it for dead after 10 s.
const beatEvery = 2 * time.Second

// register makes this process start a replica. A predecessor of the same name can write
// nothing more when it returns.
func register(ctx context.Context, st store.Store, name string) (store.Replica, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return store.Replica{}, err
	}
	r := store.Replica{ID: id.String(), Name: name, SeenAt: time.Now()}
	return r, st.Register(ctx, r)
}

// beat moves the replica's counter until ctx ends or it has been replaced.
func beat(st store.Store, id string, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			switch err := st.Beat(ctx, id); {
			case errors.Is(err, store.ErrFenced):
				return err
			case err != nil && ctx.Err() == nil:
				log.Warn("heartbeat not kept", slog.Any("error", err))
			}
		}
	}
}
