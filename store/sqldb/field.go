// This file is a Move as a list of fields, and SQL made of such a list. update.go makes the statements, once for each
// kind of Move; toolcall_move.go has the longest list and shows all that a field can be.

package sqldb

import (
	"fmt"
	"strings"
	"time"
)

// field is one value of a move M: its name, its SQL type, how the row takes it and where it stands in M. A list of fields
// makes both statements of a move: the one for a single row, which both databases run, and the one for the rows of many
// moves, which PostgreSQL gets as arrays. So a new column of a move is one more field, and the two cannot drift apart.
// M is a pointer, so that all kinds of moves share one compiled copy of this code.
type field[M any] struct {
	name string
	typ  string // text, json, bytea, bigint or boolean
	// set is the expression the row's column gets: {new} is this value, {old} what the row
	// has, {name} the value of another field. "" means that only others refer to the value.
	set string
	one func(M) any   // the argument for one row
	all func([]M) any // the argument for many rows: an array
}

// The usual expressions of field.set.
const (
	replace    = "{new}"
	keepIfText = "COALESCE(NULLIF({new}, ''), {old})" // "" keeps what the row has
	keepIfZero = "COALESCE(NULLIF({new}, 0), {old})"  // 0 keeps it
	keepIfNull = "COALESCE({new}, {old})"             // NULL keeps it
	either     = "{old} OR {new}"
	unset      = ""
)

// textField is a text, stored as clean leaves it. Like those below it takes what the row's column gets (set), and
// the value of a move (of).
func textField[M any](name, set string, of func(M) string) field[M] {
	return fieldOf(name, "text", set, func(m M) string { return Text(of(m)) })
}

func numberField[M any](name, set string, of func(M) int64) field[M] {
	return fieldOf(name, "bigint", set, of)
}

// timeField is a time, as Unix milliseconds; 0 is none, which keepIfZero takes for "leave it".
func timeField[M any](name, set string, of func(M) time.Time) field[M] {
	return fieldOf(name, "bigint", set, func(m M) int64 { return millis(of(m)) })
}

func flagField[M any](name, set string, of func(M) bool) field[M] {
	return fieldOf(name, "boolean", set, of)
}

// blobField binds nil as NULL, unlike empty bytes.
func blobField[M any](name, set string, of func(M) []byte) field[M] {
	f := fieldOf(name, "bytea", set, of)
	f.one = func(m M) any { return blob(of(m)) }
	return f
}

// jsonField binds a JSON payload as text, an empty one as NULL.
func jsonField[M any](name, set string, of func(M) []byte) field[M] {
	f := fieldOf(name, "json", set, func(m M) *string {
		payload := of(m)
		if len(payload) == 0 {
			return nil
		}
		s := Text(string(payload))
		return &s
	})
	f.one = func(m M) any { return jsonText(of(m)) }
	return f
}

// fieldOf binds the same Go value alone and as an item of an array. A field that can be NULL replaces one, or has
// pointers for V: inside an array pgx sends a nil one as NULL.
func fieldOf[M, V any](name, typ, set string, of func(M) V) field[M] {
	return field[M]{name: name, typ: typ, set: set,
		one: func(m M) any { return of(m) },
		all: func(moves []M) any {
			values := make([]V, len(moves))
			for i, m := range moves {
				values[i] = of(m)
			}
			return values
		},
	}
}

// fields are the values of a move in the order of the arguments; the first is the row's key. In an insert the fields
// that are columns come before those that only its condition refers to: the placeholders of VALUES are counted from 1.
type fields[M any] []field[M]

// stored are the fields that are columns of the row.
func (fs fields[M]) stored() fields[M] {
	var cols fields[M]
	for _, f := range fs {
		if f.set != unset {
			cols = append(cols, f)
		}
	}
	return cols
}

func (fs fields[M]) names() string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// placeholders is how SQL names each value of a statement for one row. Numbers and flags need
// their type: PostgreSQL would take $3 in NULLIF($3, 0) for an int of four bytes.
func (fs fields[M]) placeholders() map[string]string {
	refs := make(map[string]string, len(fs))
	for i, f := range fs {
		switch f.typ {
		case "bigint", "boolean":
			refs[f.name] = fmt.Sprintf("CAST($%d AS %s)", i+1, strings.ToUpper(f.typ))
		default:
			refs[f.name] = fmt.Sprintf("$%d", i+1)
		}
	}
	return refs
}

// columns is how SQL names each value of a statement for many rows: as a column of unnested.
func (fs fields[M]) columns() map[string]string {
	refs := make(map[string]string, len(fs))
	for _, f := range fs {
		refs[f.name] = "v." + f.name
		if f.typ == "json" {
			refs[f.name] += "::json"
		}
	}
	return refs
}

// unnested is the table v of all values, one array a column. JSON travels as text, because
// the driver would otherwise encode it anew.
func (fs fields[M]) unnested() string {
	arrays := make([]string, len(fs))
	for i, f := range fs {
		typ := f.typ
		if typ == "json" {
			typ = "text"
		}
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, typ)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS v (" + fs.names() + ")"
}

// fill puts refs, SQL's names of the values, in the place of {name}. The order of the map does not matter: a ref holds
// no braces, so no replacement makes or breaks another.
func fill(sql string, refs map[string]string) string {
	for name, ref := range refs {
		sql = strings.ReplaceAll(sql, "{"+name+"}", ref)
	}
	return sql
}

// assignments is what follows SET; x is the row.
func (fs fields[M]) assignments(refs map[string]string) string {
	var sets []string
	for _, f := range fs.stored() {
		set := strings.NewReplacer("{new}", refs[f.name], "{old}", "x."+f.name).Replace(f.set)
		sets = append(sets, f.name+" = "+fill(set, refs))
	}
	return strings.Join(sets, ", ")
}

// args are the arguments of the statement for one row.
func (fs fields[M]) args(m M) []any {
	args := make([]any, len(fs))
	for i, f := range fs {
		args[i] = f.one(m)
	}
	return args
}

// arrays are the arguments of the statement for many rows: a column of values for each field.
func (fs fields[M]) arrays(moves []M) []any {
	args := make([]any, len(fs))
	for i, f := range fs {
		args[i] = f.all(moves)
	}
	return args
}
