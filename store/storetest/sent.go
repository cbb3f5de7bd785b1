package storetest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Sent records the statements that stores of one kind send, each with the arguments of its first time. A test that opens stores
// gives it to them, and judges at its end with Walks. No list names the statements, so a new one is judged too. The zero value
// is ready to record; its methods are safe for concurrent use.
type Sent struct {
	mu       sync.Mutex
	args     map[string][]any
	settings map[string]string // of the connections, on PostgreSQL
}

// Note records a statement: sqlite.Options.Sent.
func (s *Sent) Note(query string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.args[query]; known || !judged(query) {
		return
	}
	if s.args == nil {
		s.args = make(map[string][]any)
	}
	kept := slices.Clone(args)
	for i, a := range kept {
		if b, ok := a.([]byte); ok {
			kept[i] = slices.Clone(b) // the sender may use its buffer again
		}
	}
	s.args[query] = kept
}

// judged reports whether a statement reads or changes rows. BEGIN, SET and their like do not, and a function of the
// database is not planned with the statement that calls it.
func judged(query string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return slices.Contains([]string{"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}, first) && len(tablesOf(query)) > 0
}

// namedTable finds the words of a statement that may name a table.
var namedTable = regexp.MustCompile(`(?:FROM|JOIN|INTO|UPDATE) ([a-z_]+)`)

// tablesOf lists the tables that a statement names.
func tablesOf(query string) []string {
	var named []string
	for _, m := range namedTable.FindAllStringSubmatch(query, -1) {
		if _, ok := filled[m[1]]; ok {
			named = append(named, m[1])
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// TraceQueryStart implements pgx.QueryTracer: postgres.Options.Tracer.
func (s *Sent) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.from(conn)
	s.Note(data.SQL, slices.DeleteFunc(slices.Clone(data.Args), isOption))
	return ctx
}

// isOption reports whether an argument is for the driver and not for the database.
func isOption(arg any) bool {
	switch arg.(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
		return true
	}
	return false
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *Sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (s *Sent) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	s.from(conn)
	for _, q := range data.Batch.QueuedQueries {
		s.Note(q.SQL, q.Arguments)
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s *Sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (s *Sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// from keeps the settings of a connection, with which its statements have to be planned.
func (s *Sent) from(conn *pgx.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settings == nil {
		s.settings = maps.Clone(conn.Config().RuntimeParams)
	}
}

// texts are the statements in a fixed order.
func (s *Sent) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.args))
}

// compared finds a column that a statement compares with one argument or with several.
var compared = regexp.MustCompile(`(?:[a-z]+\.)?([a-z0-9_]+) (?:=|<>|<|>|<=|>=) \$(\d+)|(?:[a-z]+\.)?([a-z0-9_]+) IN \(((?:\$\d+(?:, )?)+)(?:, '')?\)`)

// limited finds the argument of a LIMIT.
var limited = regexp.MustCompile(`LIMIT \$(\d+)`)

// fewRows replaces every LIMIT, because the caller decides how long a page is.
const fewRows = 10

// argsFor returns three sets of arguments for a statement. With the first it finds rows of the filled tables: those of the user
// who owns all of them, and the middle one by its id. The second set is of another user of the same tenant. The third is the
// set that was sent, which matches no row there: a list that has to fill its page must not go through all users' rows in vain.
func (s *Sent) argsFor(query string) [3][]any {
	s.mu.Lock()
	sent := slices.Clone(s.args[query])
	s.mu.Unlock()
	for _, m := range limited.FindAllStringSubmatch(query, -1) {
		if i, err := strconv.Atoi(m[1]); err == nil && i <= len(sent) {
			sent[i-1] = int64(fewRows)
		}
	}
	return [3][]any{sample(query, sent, shared), sample(query, sent, map[string]string{"tenant": shared["tenant"]}), sent}
}

// joined finds an expression over several columns that a statement compares with one argument (store/sqldb/where.go, ofList).
var joined = regexp.MustCompile(`\(([a-z_. |':]+\|\|[a-z_. |':]+)\) = \$(\d+)`)

// sought finds the argument by which a search looks for tokens. All texts of the filled tables have the one of a sample.
var sought = regexp.MustCompile(`(?:MATCH|@>|&&) \$(\d+)`)

const commonToken = "xcommon"

// sample replaces the arguments that a statement compares with columns by values of the filled tables.
func sample(query string, args []any, same map[string]string) []any {
	args = slices.Clone(args)
	set := func(n string, column string) {
		i, err := strconv.Atoi(n)
		if err != nil || i > len(args) {
			return
		}
		if text, ok := args[i-1].(string); ok && text != "" {
			args[i-1] = sampled(column, text, same)
		}
	}
	for _, m := range compared.FindAllStringSubmatch(query, -1) {
		switch {
		case strings.Contains(m[0], "<>"): // rows of other users: all are
			if i, err := strconv.Atoi(m[2]); err == nil && i <= len(args) {
				if _, text := args[i-1].(string); text {
					args[i-1] = "somebody"
				}
			}
		case m[1] != "":
			set(m[2], m[1])
		default:
			for n := range strings.SplitSeq(m[4], ", ") {
				set(strings.TrimPrefix(n, "$"), m[3])
			}
		}
	}
	for _, m := range joined.FindAllStringSubmatch(query, -1) {
		i, err := strconv.Atoi(m[2])
		if err != nil || i > len(args) {
			continue
		}
		columns := strings.Split(m[1], " || ':' || ")
		values := strings.SplitN(fmt.Sprint(args[i-1]), ":", len(columns))
		for j := range min(len(columns), len(values)) {
			if values[j] != "" {
				values[j] = sampled(columns[j][strings.LastIndex(columns[j], ".")+1:], values[j], same)
			}
		}
		args[i-1] = strings.Join(values, ":")
	}
	for _, m := range sought.FindAllStringSubmatch(query, -1) {
		i, err := strconv.Atoi(m[1])
		if err != nil || i > len(args) {
			continue
		}
		if _, text := args[i-1].(string); text {
			args[i-1] = commonToken
		} else {
			args[i-1] = []int32{1}
		}
	}
	for i, a := range args {
		if all, ok := a.([]string); ok {
			all = slices.Clone(all)
			for j, text := range all {
				if len(text) == len(middle) {
					all[j] = middle
				}
			}
			args[i] = all
		}
	}
	return args
}

// sampled returns the value of the filled tables for a column that a statement compares with text. same holds the values that
// all their rows share.
func sampled(column, text string, same map[string]string) string {
	if value, ok := same[column]; ok {
		return value
	}
	if len(text) == len(middle) && strings.Count(text, "-") == 4 {
		return middle
	}
	return text
}

// Exception is a statement that may visit more rows than others.
type Exception struct {
	Has    string // a part of its text
	Reason string
}

// Exceptions are all of them. One that no statement of the contract suite needs fails the suite.
var Exceptions = []Exception{
	{"FROM proxies ORDER BY registered_at", "an operator registered each; the start and an administrator's list read all"},
	{"AND e.type = $", "the command \"aqueduct policy shadow\" goes through all decisions of a policy"},
	{"AND s.deleted_at = 0 AND s.parent_turn_id = '' ORDER BY s.updated_at", "a list of all users' threads, for an export"},
	{"AND s.parent_turn_id = '' AND s.archived = $", "the same for one that is archived or not: of one user it names the user first"},
	{"UPDATE credentials SET revoked_at = $1, revoked_by = $2 WHERE tenant = $3 AND user_id = $4", "an administrator revokes each token of a user"},
}

// allowed finds the exception for a statement.
func allowed(query string) (int, bool) {
	words := strings.Join(strings.Fields(query), " ")
	i := slices.IndexFunc(Exceptions, func(e Exception) bool { return strings.Contains(words, e.Has) })
	return i, i >= 0
}

// walk is a statement that visits too much.
type walk struct{ query, found string }

// judge returns the walks that no exception allows. With all, it also returns the exceptions that no walk needs.
func judge(walks []walk, all bool) (problems []string) {
	needed := make(map[int]bool)
	for _, w := range walks {
		if i, ok := allowed(w.query); ok {
			needed[i] = true
			continue
		}
		problems = append(problems, w.query+"\n"+w.found)
	}
	for i, e := range Exceptions {
		if all && !needed[i] {
			problems = append(problems, fmt.Sprintf("the exception for %q is not needed: remove it", e.Has))
		}
	}
	return problems
}
