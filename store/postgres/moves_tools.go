package postgres

import (
	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// The moves of ToolCalls, for all rows of a Batch in one statement each, with the arguments of
// the statements for one: a replica on which agents call tools makes little else.
const (
	takeToolCalls = `INSERT INTO tool_calls (tool_call_id, session_id, turn_id, run_id, tool_name, kind, status, args, result,
		error_code, upstream_id, told, created_at, expires_at, ended_at, delivered_at, args_sha256, edited, error,
		idempotency_key, risk, grant_id, on_failure, timeout_ms, replica, running_at)
		SELECT id, session_id, turn_id, run_id, name, kind, status, args::json, result::json, error_code, upstream_id, told, created_at,
			expires_at, ended_at, delivered_at, sha256, edited, error::json, key, risk, grant_id, on_failure, timeout, replica, running_at
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			$11::text[], $12::boolean[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::boolean[], $19::text[],
			$20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[], $26::bigint[], $27::text[])
		AS v (id, session_id, turn_id, run_id, name, kind, status, args, result, error_code, upstream_id, told, created_at, expires_at,
			ended_at, delivered_at, sha256, edited, error, key, risk, grant_id, on_failure, timeout, replica, running_at, of_turn)
		WHERE EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = v.of_turn AND turns.status NOT IN ('DONE', 'FAILED', 'CANCELLED'))
		ON CONFLICT DO NOTHING RETURNING tool_call_id`
	takenTypes = "tttttttjjttbiiiitbjttttitit"

	moveToolCalls = `UPDATE tool_calls AS c SET status = v.to_status, run_id = COALESCE(NULLIF(v.run_id, ''), c.run_id),
		result = COALESCE(v.result::json, c.result),
		error_code = CASE WHEN v.afresh THEN v.error_code ELSE COALESCE(NULLIF(v.error_code, ''), c.error_code) END,
		error = CASE WHEN v.afresh THEN v.error::json ELSE COALESCE(v.error::json, c.error) END,
		told = c.told OR v.told, ended_at = COALESCE(NULLIF(v.ended_at, 0), c.ended_at),
		expires_at = COALESCE(NULLIF(v.expires_at, 0), c.expires_at), running_at = COALESCE(NULLIF(v.running_at, 0), c.running_at),
		replica = COALESCE(NULLIF(v.replica, ''), c.replica), args = COALESCE(v.args::json, c.args), edited = c.edited OR v.edited,
		args_sha256 = COALESCE(NULLIF(v.sha256, ''), c.args_sha256), risk = COALESCE(NULLIF(v.risk, ''), c.risk),
		grant_id = COALESCE(NULLIF(v.grant_id, ''), c.grant_id)
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[], $8::boolean[], $9::bigint[],
			$10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::text[], $17::text[], $18::text[],
			$19::boolean[], $20::text[])
		AS v (id, to_status, run_id, result, afresh, error_code, error, told, ended_at, expires_at, running_at, replica, args, edited,
			sha256, risk, grant_id, only_of, while_turn, from_status)
		WHERE c.tool_call_id = v.id AND c.status = v.from_status AND (v.only_of = '' OR c.replica = v.only_of)
		AND (NOT v.while_turn OR EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = c.turn_id
			AND t.status NOT IN ('DONE', 'FAILED', 'CANCELLED'))) RETURNING c.tool_call_id`
	movedTypes = "tttjbtjbiiitjbttttbt"
)

// toolCalls queues the ToolCalls that a Batch takes and those that it moves.
func (g *grouped) toolCalls(p *pgx.Batch) ([]answer, error) {
	var answers []answer
	for _, group := range []struct {
		rows       []int
		sql, types string
	}{{g.taken, takeToolCalls, takenTypes}, {g.moved, moveToolCalls, movedTypes}} {
		if len(group.rows) == 0 {
			continue
		}
		all := make([][]any, len(group.rows))
		ids := make([]string, len(group.rows))
		for n, i := range group.rows {
			s, err := sqldb.MoveStatement(g.moves[i])
			if err != nil {
				return nil, err
			}
			// A move's last arguments are the states it may begin in, which are one here.
			all[n], ids[n] = s.Args[:len(group.types)], s.Args[0].(string)
		}
		p.Queue(group.sql, arrays(group.types, all)...)
		answers = append(answers, answer{rows: group.rows, ids: ids})
	}
	return answers, nil
}

// movesOne reports whether a ToolCallMove begins in one state, and so may stand in a group.
func movesOne(m store.ToolCallMove) bool { return m.From != "" && m.From.CanBecome(m.To) }

// arrays turns the arguments of one statement a row into one array a column: of t text, j JSON
// as text or NULL, b boolean, i bigint.
func arrays(types string, rows [][]any) []any {
	columns := make([]any, len(types))
	for c, typ := range types {
		switch typ {
		case 't':
			columns[c] = column[string](rows, c)
		case 'b':
			columns[c] = column[bool](rows, c)
		case 'i':
			columns[c] = column[int64](rows, c)
		case 'j':
			column := make([]*string, len(rows))
			for n, row := range rows {
				if s, ok := row[c].(string); ok {
					column[n] = &s
				}
			}
			columns[c] = column
		}
	}
	return columns
}

func column[T any](rows [][]any, c int) []T {
	all := make([]T, len(rows))
	for n, row := range rows {
		all[n] = row[c].(T)
	}
	return all
}
