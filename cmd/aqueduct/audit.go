package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"aqueduct/bridge/audit"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
)

// auditCmd is about the record of who did what.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that nobody has changed it; fails when somebody has."`
}

// auditVerifyCmd walks the chain.
type auditVerifyCmd struct {
	Database databaseFlag `default:"sqlite:./data/aqueduct.db" help:"sqlite:PATH (no server may run on it) or postgres://…"`
	Head     []headFlag   `help:"A head printed before, which must still be in the chain; repeatable." placeholder:"SEQ:HASH"`
}

// Run implements the command.
func (c *auditVerifyCmd) Run(ctx context.Context, to output) (err error) {
	st, err := c.Database.openAsItIs(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	known := make([]audit.Head, len(c.Head))
	for i, h := range c.Head {
		known[i] = audit.Head(h)
	}
	head, err := audit.Verify(ctx, st, known...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "%d entries, unbroken\nhead %d:%s\n", head.Seq, head.Seq, head.Hash)
	return err
}

// headFlag is a head as the command prints it.
type headFlag audit.Head

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *headFlag) UnmarshalText(text []byte) error {
	seq, hash, ok := strings.Cut(string(text), ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || n < 0 || n > 0 && hash == "" {
		return fmt.Errorf("%q is not SEQ:HASH as audit verify prints it", text)
	}
	*h = headFlag{Seq: n, Hash: hash}
	return nil
}

// openAsItIs opens a database that is there and leaves its schema alone: looking must not
// change what replicas of another version work with.
func (d databaseFlag) openAsItIs(ctx context.Context) (store.Store, error) {
	kind, path, _ := strings.Cut(string(d), ":")
	switch kind {
	case "sqlite":
		path = strings.TrimPrefix(path, "//")
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--database: %w", err)
		}
		return sqlite.Open(ctx, path, sqlite.Options{NoMigrate: true})
	case "postgres", "postgresql":
		return postgres.Open(ctx, string(d), postgres.Options{NoMigrate: true})
	}
	return nil, errors.New("--database: expected sqlite:PATH or postgres://…")
}
