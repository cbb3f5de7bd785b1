package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"aqueduct/bridge/audit"
)

// auditCmd is about the record of who did what.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that nobody has changed it; fails when somebody has."`
}

// auditVerifyCmd walks the chain.
type auditVerifyCmd struct {
	Database databaseFlag `default:"sqlite:./data/aqueduct.db" help:"sqlite:PATH or postgres://…; a server may be running on it."`
	Head     []headFlag   `help:"A head printed before, which must still be in the chain; repeatable." placeholder:"SEQ:HASH"`
}

// Run implements the command.
func (c *auditVerifyCmd) Run(ctx context.Context, to output) (err error) {
	st, err := c.Database.look(ctx)
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
