package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

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

// fenceWait bounds how long a leaving process tries to give up what it owns. When it fails,
// the others find out by its beat.
const fenceWait = 5 * time.Second

// leave fences the replica after its last commit, so that another can take over its Sessions
// at once.
func leave(ctx context.Context, st store.Store, id string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fenceWait)
	defer cancel()
	if err := st.Fence(ctx, id); err != nil {
		log.Warn("replica not fenced on leaving; the others wait until its beat is missing", slog.Any("error", err))
	}
}

// replicaName is the label of this process: what it was given, or the host's name.
func replicaName(given string) string {
	if given != "" {
		return given
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "aqueduct"
}
