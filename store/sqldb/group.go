// This file makes few statements of the Moves of a Batch. It is PostgreSQL's; SQLite runs the Moves one by one
// (batch.go).

package sqldb

import "aqueduct/store"

// Grouped is one statement for one move of a Batch or for several.
type Grouped struct {
	Statement
	// Index is the move's place in the Batch, where the statement is for one.
	Index int
	// Rows are the places of several moves by their rows' keys, nil where the statement is for
	// one. It returns the keys of the moves that took effect; the others are lost.
	Rows map[string]int
}

// Group turns the moves of a Batch into statements, for a database that takes arrays: moves of
// the kinds that every Run makes together, a statement a kind, the others each by itself, in
// order and behind the groups. A row that is touched more than once keeps the order of its
// moves, so all of them stay single. Records that depend on a ToolCall come last, because the
// moves of that ToolCall must have been made.
//
// Between different rows the order is not that of the Batch. A ToolCallMove with WhileTurn, and a TakeToolCall, see
// their Turn as the grouped moves of the Batch leave it: where it ends in the same Batch they are lost, as they would be
// had they come one commit later.
func Group(moves []store.Move) ([]Grouped, error) {
	g := groups{touched: make(map[string]int)}
	for _, m := range moves {
		g.touched[rowOf(m)]++
	}
	for i, m := range moves {
		g.add(i, m)
	}
	return g.statements(moves)
}

// groups sorts the moves of a Batch by their kind. A kind has a group where busy replicas make many of it at once; for
// the others a statement each in the same pipeline costs less than a second form of their SQL would.
type groups struct {
	touched  map[string]int // how many moves of the Batch touch the row
	runs     group[*store.RunMove]
	turns    group[*store.TurnMove]
	sessions group[*store.SessionMove]
	taken    group[*store.TakeToolCall]
	calls    group[*store.ToolCallMove]
	records  group[*store.RecordOf]
	single   []int
}

// group is moves of one kind, of different rows, with their places in the Batch.
type group[M any] struct {
	index []int
	moves []M
}

func (g *group[M]) add(i int, m M) { g.index, g.moves = append(g.index, i), append(g.moves, m) }

// add puts a move into its kind's group, or among those that stay single: it is of another kind, its row is touched
// twice, or it may begin in several states, which a group cannot compare.
func (g *groups) add(i int, m store.Move) {
	alone := g.touched[rowOf(m)] == 1
	switch m := m.(type) {
	case store.RunMove:
		if alone && runMoves.groups(&m) {
			g.runs.add(i, &m)
			return
		}
	case store.TurnMove:
		if alone && turnMoves.groups(&m) {
			g.turns.add(i, &m)
			return
		}
	case store.SessionMove:
		if alone {
			g.sessions.add(i, &m)
			return
		}
	case store.TakeToolCall:
		if alone {
			g.taken.add(i, &m)
			return
		}
	case store.ToolCallMove:
		if alone && toolCallMoves.groups(&m) {
			g.calls.add(i, &m)
			return
		}
	case store.RecordOf:
		g.records.add(i, &m)
		return
	}
	g.single = append(g.single, i) // an illegal move too: it is refused where its SQL is made
}

// statements are all of the Batch in the order in which they run: groups, then single moves, then Records that depend
// on either.
func (g *groups) statements(moves []store.Move) ([]Grouped, error) {
	var all []Grouped
	all = g.runs.append(all, runMoves.grouped)
	all = g.turns.append(all, turnMoves.grouped)
	all = g.sessions.append(all, sessionMoves.grouped)
	all = g.taken.append(all, toolCallTakes.grouped)
	all = g.calls.append(all, toolCallMoves.grouped)
	for _, i := range g.single {
		s, err := moveStatement(moves[i])
		if err != nil {
			return nil, err
		}
		s.Args = clean(s.Args)
		all = append(all, Grouped{Statement: s, Index: i})
	}
	return g.records.append(all, recordsOf.grouped), nil
}

// append adds the group's statement, if the group has moves. The first argument of a statement for many rows is the
// array of its keys, as they are stored, so that what the database returns can be found among them.
func (g *group[M]) append(all []Grouped, statement func([]M) Statement) []Grouped {
	if len(g.moves) == 0 {
		return all
	}
	s := Grouped{Statement: statement(g.moves), Index: g.index[0]}
	if s.CAS {
		s.Rows = make(map[string]int, len(g.index))
		for n, key := range s.Args[0].([]string) {
			s.Rows[key] = g.index[n]
		}
	}
	return append(all, s)
}

// rowOf names the row that a move touches, with a letter for its table. Moves that never stand in a group are named too
// where they touch a row of one that may: it must not overtake them. "" is for the moves that touch no such row.
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
	case store.ToolCallInTranscript:
		return "c" + m.ID
	case store.ToolCallDelivered:
		return "c" + m.ID
	}
	return ""
}
