package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// The moves every Run makes, for all rows of a Batch in one statement each. RETURNING
// tells which compare-and-sets took effect.
const (
	moveRuns = `UPDATE runs AS r SET status = v.to_status, first_seq = COALESCE(NULLIF(v.first_seq, 0), r.first_seq),
		last_seq = COALESCE(NULLIF(v.last_seq, 0), r.last_seq), error_code = COALESCE(NULLIF(v.error_code, ''), r.error_code),
		started_at = COALESCE(NULLIF(v.started_at, 0), r.started_at), ended_at = COALESCE(NULLIF(v.ended_at, 0), r.ended_at)
		FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[])
		AS v (at, id, from_status, to_status, first_seq, last_seq, error_code, started_at, ended_at)
		WHERE r.run_id = v.id AND r.status = v.from_status RETURNING v.at`
	moveTurns = `UPDATE turns AS t SET status = v.to_status, started_at = COALESCE(NULLIF(v.started_at, 0), t.started_at),
		dispatched_at = COALESCE(NULLIF(v.dispatched_at, 0), t.dispatched_at), ended_at = COALESCE(NULLIF(v.ended_at, 0), t.ended_at),
		token_hash = COALESCE(v.token_hash, t.token_hash), usage = COALESCE(v.usage::json, t.usage),
		error_code = COALESCE(NULLIF(v.error_code, ''), t.error_code),
		error_message = COALESCE(NULLIF(v.error_message, ''), t.error_message),
		upstream = CASE v.upstream WHEN '' THEN t.upstream WHEN '-' THEN '' ELSE v.upstream END
		FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::text[],
			$10::text[], $11::text[], $12::text[])
		AS v (at, id, from_status, to_status, started_at, dispatched_at, ended_at, token_hash, usage, error_code, error_message, upstream)
		WHERE t.turn_id = v.id AND t.status = v.from_status RETURNING v.at`
	moveSessions = `UPDATE sessions AS s SET state = COALESCE(v.state::json, s.state),
		title = COALESCE(NULLIF(v.title, ''), s.title), updated_at = v.updated_at, bytes = s.bytes + v.bytes
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS v (id, state, title, updated_at, bytes)
		WHERE s.session_id = v.id`
)

// grouped is a Batch's moves as statements: those every Run makes together, the others
// each by itself and in order.
type grouped struct {
	moves []store.Move
	times map[string]int // how many moves of the Batch touch the row

	runs     []int
	turns    []int
	sessions []int
	taken    []int // ToolCalls
	moved    []int
	records  []int // RecordOf, behind all others
	single   []int
}

// group sorts the moves. A row that is touched more than once keeps the order of its
// moves, so all of them stay single, behind the groups.
func group(moves []store.Move) grouped {
	g := grouped{moves: moves, times: make(map[string]int)}
	for _, m := range moves {
		g.times[rowOf(m)]++
	}
	for i, m := range moves {
		g.sort(i, m)
	}
	return g
}

func (g *grouped) sort(i int, m store.Move) {
	alone := g.times[rowOf(m)] == 1
	switch m := m.(type) {
	case store.RunMove:
		if alone && m.From != "" && m.From.CanBecome(m.To) {
			g.runs = append(g.runs, i)
			return
		}
	case store.TurnMove:
		if alone && len(m.From) == 1 && m.From[0].CanBecome(m.To) {
			g.turns = append(g.turns, i)
			return
		}
	case store.SessionMove:
		if alone {
			g.sessions = append(g.sessions, i)
			return
		}
	case store.TakeToolCall:
		if alone {
			g.taken = append(g.taken, i)
			return
		}
	case store.ToolCallMove:
		if alone && movesOne(m) {
			g.moved = append(g.moved, i)
			return
		}
	case store.RecordOf:
		g.records = append(g.records, i)
		return
	}
	g.single = append(g.single, i) // an illegal move too: it is refused where its SQL is made
}

// rowOf names the row a move of a group touches.
func rowOf(m store.Move) string {
	switch m := m.(type) {
	case store.RunMove:
		return "r" + m.ID
	case store.InsertRun:
		return "r" + m.Run.ID
	case store.TurnMove:
		return "t" + m.ID
	case store.SessionMove:
		return "s" + m.ID
	case store.TakeToolCall:
		if key := m.ToolCall.IdempotencyKey; key != "" {
			return "k" + m.ToolCall.TurnID + " " + key // of those with one key the first is taken
		}
		return "c" + m.ToolCall.ID
	case store.InsertToolCall:
		return "c" + m.ToolCall.ID
	case store.ToolCallMove:
		return "c" + m.ID
	case store.ToolCallShown:
		return "c" + m.ID
	case store.ToolCallTold:
		return "c" + m.ID
	case store.ToolCallDelivered:
		return "c" + m.ID
	}
	return ""
}

// answer says what the answer to one queued statement means.
type answer struct {
	rows  []int    // a group: the moves it holds; RETURNING tells which took effect
	ids   []string // of ToolCalls: their ids, which RETURNING tells; of others it tells rows
	index int      // a single move
	cas   bool
}

// queue adds the moves to the pipeline and tells what to read back.
func (g *grouped) queue(p *pgx.Batch) ([]answer, error) {
	var answers []answer
	if len(g.runs) > 0 {
		p.Queue(moveRuns, g.runArgs()...)
		answers = append(answers, answer{rows: g.runs})
	}
	if len(g.turns) > 0 {
		p.Queue(moveTurns, g.turnArgs()...)
		answers = append(answers, answer{rows: g.turns})
	}
	if len(g.sessions) > 0 {
		p.Queue(moveSessions, g.sessionArgs()...)
		answers = append(answers, answer{index: g.sessions[0]})
	}
	calls, err := g.toolCalls(p)
	if err != nil {
		return nil, err
	}
	answers = append(answers, calls...)
	for _, i := range g.single {
		s, err := sqldb.MoveStatement(g.moves[i])
		if err != nil {
			return nil, err
		}
		p.Queue(s.SQL, s.Args...)
		answers = append(answers, answer{index: i, cas: s.CAS})
	}
	if len(g.records) > 0 {
		answers = append(answers, g.recordsOf(p))
	}
	return answers, nil
}

// read takes one answer and adds the moves that were lost.
func (a answer) read(results pgx.BatchResults, lost []int) ([]int, error) {
	if a.rows == nil {
		tag, err := results.Exec()
		if err == nil && a.cas && tag.RowsAffected() == 0 {
			lost = append(lost, a.index)
		}
		return lost, err
	}
	rows, err := results.Query()
	if err != nil {
		return lost, err
	}
	took := make(map[int]bool, len(a.rows))
	if a.ids == nil {
		var at int32
		_, err = pgx.ForEachRow(rows, []any{&at}, func() error { took[int(at)] = true; return nil })
	} else {
		var id string
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { took[a.rows[slices.Index(a.ids, id)]] = true; return nil })
	}
	if err != nil {
		return lost, err
	}
	for _, i := range a.rows {
		if !took[i] {
			lost = append(lost, i)
		}
	}
	return lost, nil
}

// columns is one array for each column of a group.
type columns struct {
	at    []int32
	texts [8][]string
	times [4][]int64
}

func (c *columns) add(i int, texts []string, times ...int64) {
	c.at = append(c.at, int32(i))
	for n, s := range texts {
		c.texts[n] = append(c.texts[n], sqldb.Text(s))
	}
	for n, v := range times {
		c.times[n] = append(c.times[n], v)
	}
}

func (g *grouped) runArgs() []any {
	var c columns
	for _, i := range g.runs {
		m := g.moves[i].(store.RunMove)
		c.add(i, []string{m.ID, string(m.From), string(m.To), m.ErrorCode},
			m.FirstSeq, m.LastSeq, sqldb.Millis(m.StartedAt), sqldb.Millis(m.EndedAt))
	}
	return []any{c.at, c.texts[0], c.texts[1], c.texts[2], c.times[0], c.times[1], c.texts[3], c.times[2], c.times[3]}
}

func (g *grouped) turnArgs() []any {
	var (
		c      columns
		hashes [][]byte
		usages []*string
	)
	for _, i := range g.turns {
		m := g.moves[i].(store.TurnMove)
		c.add(i, []string{m.ID, string(m.From[0]), string(m.To), m.ErrorCode, m.ErrorMessage, m.Upstream},
			sqldb.Millis(m.StartedAt), sqldb.Millis(m.DispatchedAt), sqldb.Millis(m.EndedAt))
		hashes = append(hashes, m.TokenHash)
		usages = append(usages, orNull(m.Usage))
	}
	return []any{
		c.at, c.texts[0], c.texts[1], c.texts[2], c.times[0], c.times[1], c.times[2], hashes, usages, c.texts[3], c.texts[4], c.texts[5],
	}
}

func (g *grouped) sessionArgs() []any {
	var (
		c      columns
		states []*string
	)
	for _, i := range g.sessions {
		m := g.moves[i].(store.SessionMove)
		c.add(i, []string{m.ID, m.Title}, sqldb.Millis(m.UpdatedAt), m.Bytes)
		states = append(states, orNull(m.State))
	}
	return []any{c.texts[0], states, c.texts[1], c.times[0], c.times[1]}
}

// orNull is a JSON payload as text; an empty one is NULL.
func orNull(payload []byte) *string {
	if len(payload) == 0 {
		return nil
	}
	s := sqldb.Text(string(payload))
	return &s
}
