// This file keeps checks out of transactions. Work that needs a verdict it has not got is broken off, the check is
// made outside, and the work runs again with it.

package schema

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
)

// errDeferred ends a transaction that needs a check which has not been made.
var errDeferred = errors.New("schema: a value has to be checked first")

// verdicts are the checks made for one piece of work, by schema and value. They belong to the goroutine that runs the
// work, and end with it.
type verdicts struct {
	made    map[question]error
	missing map[question]func() error
}

// question identifies a check by its texts: the work reads its rows anew each time it runs, so that the Schema and the
// value are other objects then, and may be other texts.
type question struct{ schema, value [sha256.Size]byte }

// verdictsKey is the key of the verdicts in the context of work that Outside runs.
type verdictsKey struct{}

// Outside runs work that opens a transaction, and makes the checks which that needs outside of it: a check that was not
// made yet ends the transaction, is made, and the work runs again. A transaction that waited for a check would hold up
// every other writer; on SQLite, all of them.
//
// work must be able to run more than once: it returns errDeferred from its transaction, which rolls that back, and keeps
// nothing of a run that did. It ends, because each further run has at least one verdict more; where rows change between
// the runs, ctx bounds it.
func Outside(ctx context.Context, work func(context.Context) error) error {
	v := &verdicts{made: map[question]error{}, missing: map[question]func() error{}}
	ctx = context.WithValue(ctx, verdictsKey{}, v)
	for {
		err := work(ctx)
		if !Deferred(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// One run may have found several that are missing (bridge's answers look at all of theirs first).
		for q, check := range v.missing {
			v.made[q] = check()
			delete(v.missing, q)
		}
	}
}

// Deferred reports whether work has to be run again by Outside.
func Deferred(err error) bool { return errors.Is(err, errDeferred) }

// CheckIn is Check for work that runs under Outside: it gives the verdict that was made before, or has it made. Anywhere
// else it checks at once.
func (s *Schema) CheckIn(ctx context.Context, value json.RawMessage) error {
	v, ok := ctx.Value(verdictsKey{}).(*verdicts)
	if !ok || len(s.raw) == 0 {
		return s.Check(value)
	}
	q := question{sha256.Sum256(s.raw), sha256.Sum256(value)}
	verdict, made := v.made[q]
	if !made {
		v.missing[q] = func() error { return s.Check(value) }
		return errDeferred
	}
	return verdict
}
