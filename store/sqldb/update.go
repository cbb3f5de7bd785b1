// This file makes the two statements of a kind of Move: for one row, and for many as arrays. Both compare the status
// in the statement that changes it, so whether a Move took effect is the number of rows that it touched.

package sqldb

import (
	"fmt"
	"slices"
	"strings"
)

// update is a move M that changes a row: its two statements, made once from its fields. The
// texts are constant, so that each is prepared once a connection.
type update[M any] struct {
	machine *machine[M] // nil for a row without a status
	fields  fields[M]
	begins  fields[M] // fields and, with a machine, the status a row of a group begins in
	one     string
	many    string
}

// newUpdate makes the statements for a table. The one for a single row takes a set of states, padded to a fixed number;
// the one for many rows compares each with its own from_status, so that it takes moves from one state only (see
// groups). where is a condition beside key and status, in which x is the row and {name} the value of a field.
//
// The two of a RunMove, shortened; the first argument of either is the key, or the array of keys:
//
//	UPDATE runs AS x SET status = COALESCE(NULLIF($2, ''), x.status),
//	  last_seq = COALESCE(NULLIF(CAST($4 AS BIGINT), 0), x.last_seq), …
//	  WHERE x.run_id = $1 AND x.status IN ($8, $9, …)
//	UPDATE runs AS x SET status = COALESCE(NULLIF(v.status, ''), x.status),
//	  last_seq = COALESCE(NULLIF(v.last_seq, 0), x.last_seq), …
//	  FROM unnest($1::text[], $2::text[], …) AS v (run_id, status, …, from_status)
//	  WHERE x.run_id = v.run_id AND x.status = v.from_status RETURNING x.run_id
func newUpdate[M any](table, where string, machine *machine[M], fs ...field[M]) *update[M] {
	u := &update[M]{machine: machine, fields: fs, begins: fs}
	key := fs[0].name
	if where != "" {
		where = " AND " + where
	}
	refs := u.fields.placeholders()
	u.one = "UPDATE " + table + " AS x SET " + u.fields.assignments(refs) +
		" WHERE x." + key + " = $1" + fill(where, refs)
	// The status is compared in the statement that changes it. A status read before would be out of date by then, and
	// of two that settle the same row both would believe they did.
	if machine != nil {
		u.one += " AND x.status IN (" + placeholders(len(fs)+1, machine.states) + ")"
		u.begins = append(slices.Clone(u.fields), textField("from_status", unset, machine.begins))
		where = " AND x.status = {from_status}" + where
	}
	refs = u.begins.columns()
	u.many = "UPDATE " + table + " AS x SET " + u.begins.assignments(refs) + " FROM " + u.begins.unnested() +
		" WHERE x." + key + " = v." + key + fill(where, refs) + " RETURNING x." + key
	return u
}

// placeholders is a list of n of them, counted from from.
func placeholders(from, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", from+i)
	}
	return strings.Join(all, ", ")
}

// statement is the move by itself. One that its machine forbids is refused.
func (u *update[M]) statement(m M) (Statement, error) {
	s := Statement{SQL: u.one}
	if u.machine == nil {
		s.Args = u.fields.args(m)
		return s, nil
	}
	if err := u.machine.check(m); err != nil {
		return s, err
	}
	s.Args, s.CAS = append(u.fields.args(m), u.machine.from(m)...), true
	return s, nil
}

// grouped are moves of different rows in one statement, which returns the keys of those that
// took effect.
func (u *update[M]) grouped(moves []M) Statement {
	return Statement{SQL: u.many, Args: u.begins.arrays(moves), CAS: u.machine != nil}
}

// groups reports whether the move may stand in a group: it is legal and begins in one status.
func (u *update[M]) groups(m M) bool { return u.machine == nil || u.machine.begins(m) != "" }

// machine is what an update needs of the state machine of its rows.
type machine[M any] struct {
	states int            // how many there are
	check  func(M) error  // an error where the machine forbids the move
	from   func(M) []any  // the states the move may begin in, as many arguments as there are states
	begins func(M) string // the one state it may begin in, "" where there are several or it is forbidden
}

// machineOf binds the machine of one kind of moves; kind names it in errors, and all are the states of its rows.
func machineOf[M any, S status[S]](kind string, all []S, from func(M) []S, to func(M) S) *machine[M] {
	return &machine[M]{
		states: len(all),
		check:  func(m M) error { return legal(kind, from(m), to(m)) },
		from:   func(m M) []any { return padded(from(m), all) },
		begins: func(m M) string {
			if f := from(m); len(f) == 1 && f[0].CanBecome(to(m)) {
				return string(f[0])
			}
			return ""
		},
	}
}

// insert is a move M that adds a row: its two statements, made once from its fields.
type insert[M any] struct {
	fields fields[M]
	one    string
	many   string
	cas    bool // a row that was not added is a move that was lost
}

// newInsert makes the statements for a table. tail follows the values: a condition under which
// the row is added, in which {name} is the value of a field; the move is lost where none was.
func newInsert[M any](table, tail string, fs ...field[M]) *insert[M] {
	in := &insert[M]{fields: fs, cas: tail != ""}
	cols := in.fields.stored()
	into := "INSERT INTO " + table + " (" + cols.names() + ") "
	if tail == "" {
		in.one = into + "VALUES (" + placeholders(1, len(cols)) + ")"
	} else {
		in.one = into + "SELECT " + placeholders(1, len(cols)) + fill(tail, in.fields.placeholders())
	}
	refs := in.fields.columns()
	values := make([]string, len(cols))
	for i, f := range cols {
		values[i] = refs[f.name]
	}
	in.many = into + "SELECT " + strings.Join(values, ", ") + " FROM " + in.fields.unnested() + fill(tail, refs)
	if in.cas {
		in.many += " RETURNING " + table + "." + fs[0].name
	}
	return in
}

func (in *insert[M]) statement(m M) Statement {
	return Statement{SQL: in.one, Args: in.fields.args(m), CAS: in.cas}
}

// grouped adds many rows; with a condition it returns the keys of those that were added.
func (in *insert[M]) grouped(moves []M) Statement {
	return Statement{SQL: in.many, Args: in.fields.arrays(moves), CAS: in.cas}
}
