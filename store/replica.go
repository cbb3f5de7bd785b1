package store

import (
	"context"
	"time"
)

// Replica is one process start of this server. Beat is moved while it lives.
type Replica struct {
	ID     string
	Name   string
	Beat   int64
	Fenced bool
	SeenAt time.Time
}

// Replicas keeps who may write. Fencing is forever: a process that comes back after
// a freeze finds its writes refused and leaves.
type Replicas interface {
	// Register inserts the replica and fences every other one of the same name. When
	// it returns, no write of those can land any more: one caught in mid-commit is
	// waited for or its connection is ended. In a store that one process at a time can
	// open, all predecessors are fenced when it is opened, whatever their name.
	Register(ctx context.Context, r Replica) error
	// Beat moves the counter; ErrFenced when the replica has been replaced.
	Beat(ctx context.Context, id string) error
	// ListReplicas is every replica that is not fenced.
	ListReplicas(ctx context.Context) ([]Replica, error)
	// Fence ends a replica's right to write, as Register does for a namesake.
	Fence(ctx context.Context, id string) error
}
