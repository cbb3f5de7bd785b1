package storetest

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// filledRows is how many rows every table has when statements are judged. All are of one user, which no index on users
// narrows, and of as many threads.
const filledRows = 100_000

// middle is the id of a row in the middle of every table.
var middle = fmt.Sprintf(idPrefix+"%012d", filledRows/2)

const idPrefix = "01890000-0000-7000-8000-"

// shared are the values that all rows have in columns of these names.
var shared = map[string]string{
	"tenant": "local", "user_id": "local", "owner_id": "local", "actor": "local", "delegate": "local", "principal": "local",
	"delegated_to": "local", "agent_id": "demo", "root_agent_id": "demo", "kind": "question", "target": "ops",
}

// filled are the tables, each with the columns whose value fillOf does not derive from the column's name and type. i is the
// row's number and {id} its id. Rows are over, as nearly all are in a server that ran for a year. Few rows are under way at any
// time, and partial indexes hold those.
var filled = map[string]map[string]string{
	"sessions":           {"external_id": "'thread-' || i", "owner": "'dead'", "searched": "TRUE"},
	"turns":              {"status": unlessMiddle("'DONE'", "'RUNNING'")},
	"runs":               {"external_id": "'run-' || i", "status": unlessMiddle("'FINISHED'", "'RUNNING'"), "first_seq": "1", "last_seq": "8"},
	"events":             {"last_seq": "8", "n": "8"},
	"records":            {"turn_id": "{id}", "pos": "1"},
	"messages":           {"external_id": "'m-' || i", "run_id": "{id}", "role": "'user'", "searched": "TRUE"},
	"message_parts":      {"blob_size": "1"},
	"tool_calls":         {"status": unlessMiddle("'SUCCEEDED'", "'WAITING_APPROVAL'"), "told": "TRUE", "delivered_at": "i", "expires_at": "i"},
	"approvals":          {"tenant": "'local'", "user_id": "'local'", "status": unlessMiddle("'APPROVED'", "'PENDING'"), "approvers": unlessMiddle("NULL", `'["role:boss"]'`), "opened_seq": "i", "settled_seq": "i", "expires_at": "i", "decided_at": "i"},
	"commands":           {"done_at": unlessMiddle("i", "0")},
	"replicas":           {"fenced": "TRUE"},
	"proxies":            {"status": "'offline'"},
	"sandbox_instances":  {"proxy_id": "'proxy-' || i"},
	"tools":              {"tool_name": "'tool-' || i", "tenant": "'local'"},
	"grants":             {"user_id": "'local'", "agent_id": "'demo'", "session_id": "{id}", "expires_at": "i % 2"},
	"delegations":        {"expires_at": "1"},
	"outbox":             {"done_at": unlessMiddle("9000000000000 + i", "0"), "target": "'ops'"},
	"audit":              {"seq": "i", "tenant": "'local'", "actor": "'local'"},
	"decision_links":     {"expires_at": "9000000000000"},
	"bootstrap_uses":     {"expires_at": "9000000000000"},
	"credentials":        {"expires_at": "9000000000000", "revoked_at": "0", "last_used_at": "0"},
	"credential_holders": {"user_id": "'user-' || i"},
	"shares":             {"updated_at": "i"},
	"search_texts":       {"place": "i", "body": "'a common word'", "tokens": "ARRAY[1, i + 10]"},
	"search_index":       {"tokens": "'" + commonToken + " x' || i"},
	"sealed_originals":   {},
	"tenant_bytes":       {"tenant": "'tenant-' || i", "shard": "1"},
	"context_usage":      {"user_id": "'user-' || i"},
	"agents":             {"agent_id": "'agent-' || i", "tenant": "'local'", "owner_id": "'local'", "source": "'api'"},
	"model_calls":        {"status": "'OK'", "ended_at": "i"},
	"context_blobs":      {"owner_type": "'user'", "owner_id": "'local'", "size": "1"},
	"blobs":              {"status": "'KEPT'"},
	"budgets":            {"subject": "{id}", "period": "'9999-12-31'"},
	"tasks":              {"request_id": "'request-' || i", "thread_id": "'thread-' || i", "status": "'WAITING'"},
}

// unlessMiddle is a value of all rows but the middle one, which is under way.
func unlessMiddle(over, underWay string) string {
	return fmt.Sprintf("CASE WHEN i = %d THEN %s ELSE %s END", filledRows/2, underWay, over)
}

// column is one of a table.
type column struct {
	name, typ  string
	hasDefault bool // or may be NULL
}

// fillOf is the statement that fills a table, without the rows i that it selects from.
func fillOf(table string, columns []column, id string) string {
	var names, values []string
	for _, c := range columns {
		value := filled[table][c.name]
		switch same, ok := shared[c.name]; {
		case value != "":
		case c.hasDefault:
			continue
		case ok:
			value = "'" + same + "'"
		case strings.Contains(c.typ, "INT"):
			value = "i"
		case strings.Contains(c.typ, "BOOL"):
			value = "FALSE"
		case c.typ == "BLOB" || c.typ == "BYTEA":
			value = "{bytes}"
		case c.name == "id" || c.name == "ref" || c.name == "sha256" || strings.HasSuffix(c.name, "_id") || c.name == "context_key":
			value = "{id}"
		default:
			value = "''"
		}
		if c.typ == "JSON" {
			value = "CAST(" + value + " AS JSON)"
		}
		names, values = append(names, c.name), append(values, value)
	}
	text := "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ")
	return strings.ReplaceAll(text, "{id}", id)
}

// neededTables are those that the statements name.
func neededTables(texts []string) []string {
	named := make(map[string]bool)
	for _, text := range texts {
		for _, table := range tablesOf(text) {
			named[table] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// execAll runs statements one after the other.
func execAll(db *sql.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
