package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// mostBlocks is how many blocks of the tables a statement may touch on PostgreSQL: those of a few look-ups. Reading all
// entries of any index takes many times that.
const (
	mostBlocks   = 160
	blocksPerArg = 8 // a list of ids is a look-up for each
)

// WalksPostgres judges the statements that stores on PostgreSQL sent. It runs each on tables of filledRows rows, and lists
// those that touch many blocks. Plans are made while the tables are empty, which a connection keeps, and when they are full.
// noticed updates the statistics, as the store does when tables have grown. With all, it lists exceptions that are not needed
// too.
func (s *Sent) WalksPostgres(ctx context.Context, all bool, noticed func(dsn string) error) ([]string, error) {
	texts := s.texts()
	if len(texts) == 0 {
		return nil, nil
	}
	srv, err := server()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("plans_%d", srv.databases.Add(1))
	if err := srv.exec("CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY"); err != nil {
		return nil, err
	}
	walks, err := s.walksIn(ctx, srv.dsn(name), texts, noticed)
	if err := errors.Join(err, srv.exec("DROP DATABASE "+name+" WITH (FORCE)")); err != nil {
		return nil, err
	}
	return judge(walks, all), nil
}

// walksIn judges the statements in an empty database.
func (s *Sent) walksIn(ctx context.Context, dsn string, texts []string, noticed func(dsn string) error) ([]walk, error) {
	p := planning{ctx: ctx, sent: s, texts: texts, bad: make(map[string]string)}
	early, err := p.connect(dsn)
	if err != nil {
		return nil, err
	}
	defer early.Close(ctx)
	if err := fillPostgres(ctx, early, neededTables(texts)); err != nil {
		return nil, err
	}
	fresh, err := p.connect(dsn)
	if err != nil {
		return nil, err
	}
	defer fresh.Close(ctx)
	if err := noticed(dsn); err != nil {
		return nil, err
	}
	for when, conn := range map[string]*pgx.Conn{"planned when empty, once the store noticed the growth": early, "planned when full": fresh} {
		if err := p.check(conn, when); err != nil {
			return nil, err
		}
	}
	if _, err := fresh.Exec(ctx, "ANALYZE"); err != nil {
		return nil, err
	}
	if err := p.check(fresh, "analyzed"); err != nil {
		return nil, err
	}
	var walks []walk
	for _, text := range texts {
		if found := p.bad[text]; found != "" {
			walks = append(walks, walk{text, found})
		}
	}
	return walks, nil
}

// planning runs statements on connections that are set as those of the stores are.
type planning struct {
	ctx   context.Context
	sent  *Sent
	texts []string
	bad   map[string]string // the first problem of each statement
}

// connect opens a connection with every statement prepared.
func (p *planning) connect(dsn string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	for name, value := range p.sent.settings {
		cfg.RuntimeParams[name] = value
	}
	cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // the committer's, and of every connection that does not go through a pooler
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(p.ctx, cfg)
	if err != nil {
		return nil, err
	}
	for i, text := range p.texts {
		if _, err := conn.Exec(p.ctx, fmt.Sprintf("PREPARE sent%d AS %s", i, text)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", text, err), conn.Close(p.ctx))
		}
	}
	return conn, nil
}

// fillPostgres fills the tables without their triggers, which keep sums.
func fillPostgres(ctx context.Context, conn *pgx.Conn, tables []string) error {
	for _, table := range tables {
		rows, err := conn.Query(ctx, `SELECT column_name, upper(data_type), is_nullable = 'YES' OR column_default IS NOT NULL FROM information_schema.columns
			WHERE table_schema = 'public' AND table_name = '`+table+`' ORDER BY ordinal_position`)
		if err != nil {
			return err
		}
		columns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
			return c, row.Scan(&c.name, &c.typ, &c.hasDefault)
		})
		if err != nil {
			return err
		}
		fill := strings.ReplaceAll(fillOf(table, columns, "('"+idPrefix+"' || lpad(i::text, 12, '0'))"), "{bytes}", "'{}'::bytea")
		for _, statement := range []string{
			"ALTER TABLE " + table + " SET (autovacuum_enabled = false)", "SET session_replication_role = replica",
			fmt.Sprint(fill, " FROM generate_series(1, ", filledRows, ") i"), "SET session_replication_role = origin",
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// check runs every statement with each set of arguments, and rolls it back.
func (p *planning) check(conn *pgx.Conn, when string) error {
	for i, text := range p.texts {
		for _, args := range p.sent.argsFor(text) {
			run := fmt.Sprintf("EXECUTE sent%d", i)
			if len(args) > 0 {
				run += "(" + literals(args) + ")"
			}
			blocks, plan, err := p.blocks(conn, run)
			if err != nil {
				return fmt.Errorf("%s\n%s: %w", text, run, err)
			}
			if blocks > mostBlocks+blocksPerArg*len(args) && p.bad[text] == "" {
				p.bad[text] = fmt.Sprintf("-- %d blocks, %s: %s\n%s", blocks, when, run, plan)
			}
		}
	}
	return nil
}

// Statements that the suite sends in order to be refused are refused here too: for keys that exist, or values that are not
// JSON. They read no rows.
const (
	integrityErrors = "23"
	valueErrors     = "22"
)

// blocks counts the blocks that one run of a statement touches.
func (p *planning) blocks(conn *pgx.Conn, run string) (blocks int, plan string, err error) {
	if _, err := conn.Exec(p.ctx, "BEGIN"); err != nil {
		return 0, "", err
	}
	failed := conn.QueryRow(p.ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+run).Scan(&plan)
	if _, err := conn.Exec(p.ctx, "ROLLBACK"); err != nil {
		return 0, "", err
	}
	var refused *pgconn.PgError
	if errors.As(failed, &refused) && (strings.HasPrefix(refused.Code, integrityErrors) || strings.HasPrefix(refused.Code, valueErrors)) {
		return 0, "", nil
	}
	if failed != nil {
		return 0, "", failed
	}
	var said []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &said); err != nil {
		return 0, "", err
	}
	return said[0].Plan.Hit + said[0].Plan.Read, plan, nil
}

// literals are arguments as SQL writes them; their types are the statement's to know.
func literals(args []any) string {
	var all []string
	for _, a := range args {
		switch v := a.(type) {
		case nil:
			all = append(all, "NULL")
		case []byte:
			all = append(all, fmt.Sprintf(`'\x%x'`, v))
		case []string:
			all = append(all, quoted("{"+strings.Join(quotedEach(v), ",")+"}"))
		case []int32, []int64, []bool:
			all = append(all, quoted("{"+strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v), "[]")), ",")+"}"))
		case []*string:
			all = append(all, quoted("{"+strings.Repeat("NULL,", max(len(v)-1, 0))+"NULL}"))
		case [][]byte:
			all = append(all, quoted("{"+strings.Repeat("NULL,", max(len(v)-1, 0))+"NULL}"))
		default:
			all = append(all, quoted(fmt.Sprint(v)))
		}
	}
	return strings.Join(all, ", ")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func quotedEach(all []string) (out []string) {
	for _, s := range all {
		out = append(out, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)+`"`)
	}
	return out
}
