package server_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"aqueduct/store/storetest"
)

// The statements that the stores of all tests of this package send.
var sentSQLite, sentPostgres storetest.Sent

// walks reports whether a statement that a test sent goes through more rows than a few look-ups find, and prints it.
func walks() bool {
	ctx := context.Background()
	lite, err := sentSQLite.WalksSQLite(false)
	if err == nil {
		var pg []string
		pg, err = sentPostgres.WalksPostgres(ctx, false, analyze)
		lite = append(lite, pg...)
	}
	if err != nil {
		lite = append(lite, err.Error())
	}
	for _, problem := range lite {
		fmt.Fprintf(os.Stderr, "FAIL: a statement goes through too many rows:\n%s\n", problem)
	}
	return len(lite) > 0
}

// analyze updates the statistics of the tables, as a running store does when they have grown.
func analyze(dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	_, err = db.Exec("ANALYZE")
	return errors.Join(err, db.Close())
}
