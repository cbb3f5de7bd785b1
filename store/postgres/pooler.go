package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/lock"

	"aqueduct/migrations"
)

// A pooler such as PgBouncer in transaction mode gives each transaction another connection
// of the server's. Nothing may then belong to a connection: no settings, no prepared
// statements, no locks beyond a transaction. It either refuses parameters at the start of a
// connection or drops them without a word, and both can be seen by one of our own.
const directProbe = "aqueduct.direct"

// stateProtocol is how PgBouncer refuses a parameter.
const stateProtocol = "08P01"

// isPooled finds out whether connections of cfg end at a pooler.
func isPooled(ctx context.Context, cfg *pgx.ConnConfig) (bool, error) {
	probe := cfg.Copy()
	probe.RuntimeParams[directProbe] = "yes"
	conn, err := pgx.ConnectConfig(ctx, probe)
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == stateProtocol && strings.Contains(said.Message, "parameter") {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was begun
	var kept string
	err = conn.QueryRow(ctx, "SELECT coalesce(current_setting('"+directProbe+"', true), '')", pgx.QueryExecModeSimpleProtocol).Scan(&kept)
	return kept != "yes", err
}

// pooledConfig is cfg for connections that end at a pooler: each statement is sent whole, in
// one message, with its parameters, and sets nothing.
func pooledConfig(cfg *pgx.ConnConfig) *pgx.ConnConfig {
	pooled := cfg.Copy()
	for name := range settings() {
		delete(pooled.RuntimeParams, name)
	}
	pooled.RuntimeParams["application_name"] = applicationName // which poolers do carry over
	pooled.DefaultQueryExecMode = pgx.QueryExecModeExec
	pooled.StatementCacheCapacity, pooled.DescriptionCacheCapacity = 0, 0
	return pooled
}

// pooledTx sets for one transaction what a connection of our own is set to from its start.
const pooledTx = "SELECT set_config('statement_timeout', '" + statementTimeout + "', true), set_config('lock_timeout', '" + lockTimeout +
	"', true), set_config('idle_in_transaction_session_timeout', '" + idleInTransaction + "', true)"

// checkPooled refuses a database whose defaults are not what the fence and the
// compare-and-sets need: a single statement cannot be set to it.
func checkPooled(ctx context.Context, db *sql.DB) error {
	var level string
	err := db.QueryRowContext(ctx, "SELECT current_setting('default_transaction_isolation')").Scan(&level)
	if err == nil && level != "read committed" {
		err = fmt.Errorf("behind a connection pooler default_transaction_isolation must be 'read committed' and is '%s': "+
			"set it with ALTER DATABASE or ALTER ROLE, or connect without the pooler", level)
	}
	return err
}

// migratePooled brings the schema up to date under a lock that a transaction holds, the same
// that replicas without a pooler take for their connection.
func migratePooled(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it holds the lock and nothing else
	wait := fmt.Sprintf("SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_advisory_xact_lock(%d)", lock.DefaultLockID)
	if _, err := tx.ExecContext(ctx, wait); err != nil {
		return err
	}
	p, err := migrations.PostgresUnlocked(db)
	if err != nil {
		return err
	}
	return migrations.Up(ctx, p)
}
