// aqueduct migrate: brings the schema up to date without serving, for installations that give a server no right to
// change tables.

package main

import (
	"context"
	"fmt"

	"aqueduct/store"
)

// migrateCmd brings a database up to date, as serve does when it starts.
type migrateCmd struct {
	Files stateFlags `embed:""`
}

// Run implements the command.
func (m *migrateCmd) Run(ctx context.Context, to output) error {
	// No entry of the audit is written here, and who migrates need not have its key.
	st, err := m.Files.Database.open(ctx, store.AuditKey{})
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, m.Files.Database.String(), "is up to date")
	return err
}
