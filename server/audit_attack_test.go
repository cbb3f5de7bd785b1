package server_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

const auditSecret = "0123456789abcdef0123456789abcdef"

// TestS35AuditTampering: rows written by SQL are detected: an edited entry, a cut end, a decision or a grant without an
// entry, an entry written without the key. A bundle detects the same offline.
func TestS35AuditTampering(t *testing.T) {
	t.Parallel()
	key := store.NewAuditKey([]byte(auditSecret))
	for name, db := range map[string]struct {
		driver, options, unlock string
		dsn                     func(t testing.TB) string
		open                    func(t testing.TB, dsn string, key store.AuditKey) (store.Store, error)
	}{
		"SQLite": {"sqlite", "?_pragma=busy_timeout(5000)", "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; DROP TRIGGER audit_no_replace", func(t testing.TB) string { return storetest.SQLite(t) },
			func(t testing.TB, path string, key store.AuditKey) (store.Store, error) {
				return sqlite.Open(t.Context(), path, sqlite.Options{AuditKey: key, Sent: sentSQLite.Note})
			}},
		"PostgreSQL": {"pgx", "", "ALTER TABLE audit DISABLE TRIGGER USER", func(t testing.TB) string { return storetest.Postgres(t) },
			func(t testing.TB, dsn string, key store.AuditKey) (store.Store, error) {
				return postgres.Open(t.Context(), dsn, postgres.Options{AuditKey: key, Tracer: &sentPostgres})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := db.dsn(t)
			old, err := db.open(t, dsn, store.AuditKey{}) // of before there was a key
			if err != nil {
				t.Fatal(err)
			}
			audit.NewLog(old, nil, nil).Write(t.Context(), store.LocalPrincipal(), audit.SignedIn, audit.OfUser("local"), nil)
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			h := newEnvWith(t, asks, plan{open: func(t testing.TB) (store.Store, error) {
				st, err := db.open(t, dsn, key)
				if err == nil {
					err = audit.Begin(t.Context(), st, key)
				}
				return st, err
			}})
			a := &auditAttack{T: t, h: h, key: key}
			if a.db, err = sql.Open(db.driver, dsn+db.options); err != nil {
				t.Fatal(err)
			}
			defer a.db.Close()
			a.fill()
			a.exec(db.unlock)
			a.exec("CREATE TABLE kept_audit AS SELECT * FROM audit")
			a.rows()
			a.bundle()
		})
	}
}

type auditAttack struct {
	*testing.T
	h    *env
	db   *sql.DB
	key  store.AuditKey
	head audit.Head
	open string // the open question

	rejected string // the one that was rejected
}

func (a *auditAttack) exec(statement string) {
	a.Helper()
	if _, err := a.db.ExecContext(a.Context(), statement); err != nil {
		a.Fatal(statement, err)
	}
}

// fill has one question approved, one rejected and one open, and a grant.
func (a *auditAttack) fill() {
	a.Helper()
	for _, thread := range []string{"T1", "T2", "T3"} {
		a.h.chat(thread, "R"+thread, "may I?")
	}
	ids := a.h.questions()
	if len(ids) != 3 {
		a.Fatal(ids)
	}
	for i, body := range []string{`{"decision":"approve"}`, `{"decision":"reject"}`} {
		if got := a.h.decide(ids[i], body); got.status != 200 {
			a.Fatal(got.status, got.body)
		}
	}
	a.rejected, a.open = ids[1], ids[2]
	if got := a.h.do("POST", "/api/grants", `{"tool":"shell","match":{"x":{"one_of":["y"]}},"max_uses":3}`); got.status != 200 {
		a.Fatal(got.status, got.body)
	}
	w := a.walk()
	found, err := audit.Compare(a.Context(), a.h.store, w)
	if err != nil || len(found.Mismatches) > 0 || found.Approvals != 3 || found.Grants != 1 || w.Keyed != 2 {
		a.Fatalf("before: %+v %+v %v", w, found, err)
	}
	a.head = w.Head
}

func (a *auditAttack) walk(known ...audit.Head) *audit.Walk {
	return &audit.Walk{Keys: []store.AuditKey{a.key}, Known: known}
}

// rows tampers with each row in turn, and takes it back.
func (a *auditAttack) rows() {
	restore := "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept_audit"
	for name, c := range map[string]struct{ attack, undo, want string }{
		"an edited entry":       {"UPDATE audit SET actor = 'eve' WHERE seq = 3", restore, "broken at 3: its content"},
		"an edited address":     {"UPDATE audit SET remote = '' WHERE seq = 4", restore, "broken at 4: its content"},
		"a cut end":             {"DELETE FROM audit WHERE seq >= (SELECT max(seq) FROM audit)", restore, "the chain ends before entry"},
		"an entry without MAC":  {"UPDATE audit SET mac = '' WHERE seq = (SELECT max(seq) FROM audit)", restore, "it has no MAC"},
		"a chain without MACs":  {"UPDATE audit SET mac = ''", restore, "no entry has a MAC"},
		"a MAC of another":      {"UPDATE audit SET mac = (SELECT mac FROM kept_audit WHERE seq = 3) WHERE seq = 4", restore, "broken at 4: its MAC"},
		"a decision by SQL":     {"UPDATE approvals SET status = 'APPROVED', decided_by = 'local' WHERE approval_id = '" + a.open + "'", "UPDATE approvals SET status = 'PENDING', decided_by = '' WHERE approval_id = '" + a.open + "'", "no entry of who decided that"},
		"a decision turned":     {"UPDATE approvals SET status = 'APPROVED' WHERE status = 'REJECTED'", "UPDATE approvals SET status = 'REJECTED' WHERE approval_id = '" + a.rejected + "'", "it is APPROVED, and the audit says REJECTED"},
		"a decision taken back": {"UPDATE approvals SET status = 'PENDING' WHERE status = 'REJECTED'", "UPDATE approvals SET status = 'REJECTED' WHERE status = 'PENDING' AND approval_id <> '" + a.open + "'", "it is open, and the audit says that it was settled as REJECTED"},
		"another decider":       {"UPDATE approvals SET decided_by = 'eve' WHERE status = 'REJECTED'", "UPDATE approvals SET decided_by = 'local' WHERE status = 'REJECTED'", "its decider is not"},
		"other arguments":       {"UPDATE approvals SET args_sha256 = 'x' || args_sha256 WHERE status = 'REJECTED'", "UPDATE approvals SET args_sha256 = substr(args_sha256, 2) WHERE status = 'REJECTED'", "its arguments' hash"},
		"uses of a grant":       {"UPDATE grants SET uses = 2", "UPDATE grants SET uses = 0", "it was used 2 times, and the audit says 0"},
		"a grant revived":       {"UPDATE grants SET revoked_at = 1", "UPDATE grants SET revoked_at = 0", "whether it is revoked"},
	} {
		a.exec(c.attack)
		found, err := audit.Compare(a.Context(), a.h.store, a.walk(a.head))
		said := ""
		if err != nil {
			said = err.Error()
		} else if len(found.Mismatches) == 1 {
			said = found.Mismatches[0].String()
		}
		if !strings.Contains(said, c.want) {
			a.Errorf("%s: %q, want %q", name, said, c.want)
		}
		a.exec(c.undo)
		if found, err := audit.Compare(a.Context(), a.h.store, a.walk(a.head)); err != nil || len(found.Mismatches) > 0 {
			a.Fatalf("%s is not undone: %v %v", name, found.Mismatches, err)
		}
	}
	// The head of a metric is enough, and without any head a cut end is found only by what the tables have.
	short := audit.Head{Seq: a.head.Seq, Hash: a.head.Hash[:12]}
	if err := a.walk(short).Run(a.Context(), a.h.store); err != nil {
		a.Error(err)
	}
}

// bundle has the script verify a good bundle and bad ones.
func (a *auditAttack) bundle() {
	dir, keyFile := filepath.Join(a.TempDir(), "bundle"), filepath.Join(a.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(auditSecret+"\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	if _, problems, err := audit.Export(a.Context(), a.h.store, a.walk(), a.key, dir); err != nil || len(problems) > 0 {
		a.Fatal(problems, err)
	}
	head := a.head.String()
	check := func(args ...string) (string, bool) {
		out, err := exec.CommandContext(a.Context(), "python3", append([]string{"../examples/verify-audit/verify.py", dir}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err == nil
	}
	for _, args := range [][]string{nil, {"--key", keyFile}, {"--key", keyFile, "--head", head}, {"--head", head[:strings.Index(head, ":")+13]}} {
		out, good := check(args...)
		if !good {
			a.Errorf("good bundle, %v: %s", args, out)
		}
		a.Log(out)
	}
	entries := a.read(dir, audit.BundleEntries)
	lines := strings.SplitAfter(strings.TrimSuffix(entries, "\n"), "\n")
	cut := strings.Join(lines[:len(lines)-1], "")
	edited := strings.Replace(entries, `"actor":"local"`, `"actor":"eve"`, 1)
	for _, c := range []struct {
		name, file, text string
		mend             bool // the attacker makes a manifest that fits
		args             []string
		want             string
	}{
		{"edited", audit.BundleEntries, edited, false, nil, "is not the file of the manifest"},
		{"edited, with a manifest", audit.BundleEntries, edited, true, nil, "broken at entry"},
		{"cut", audit.BundleEntries, cut, false, nil, "is not the file of the manifest"},
		{"cut, with a manifest", audit.BundleEntries, cut, true, []string{"--head", head}, "is not in the chain"},
		{"cut, with a manifest, by the key", audit.BundleEntries, cut, true, []string{"--key", keyFile}, "manifest.json: no MAC"},
		{"turned", audit.BundleApprovals, strings.Replace(a.read(dir, audit.BundleApprovals), "REJECTED", "APPROVED", 1), true, nil, "the audit does not say so"},
	} {
		before, was := a.read(dir, c.file), a.read(dir, audit.BundleManifest)
		a.write(dir, c.file, c.text)
		if c.mend {
			a.mend(dir, c.file, c.text, c.name)
		}
		if out, good := check(c.args...); good || !strings.Contains(out, c.want) {
			a.Errorf("%s: %s, want %s", c.name, out, c.want)
		}
		a.write(dir, c.file, before)
		a.write(dir, audit.BundleManifest, was)
	}
}

func (a *auditAttack) read(dir, name string) string {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		a.Fatal(err)
	}
	return string(raw)
}

func (a *auditAttack) write(dir, name, text string) {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

// mend makes the manifest fit a changed file, as far as that is possible without the key.
func (a *auditAttack) mend(dir, file, text, name string) {
	var m map[string]any
	if err := json.Unmarshal([]byte(a.read(dir, audit.BundleManifest)), &m); err != nil {
		a.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	m["files"].(map[string]any)[file].(map[string]any)["sha256"] = hex.EncodeToString(sum[:])
	if strings.HasPrefix(name, "cut") {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		var last map[string]any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			a.Fatal(err)
		}
		m["head"] = map[string]any{"seq": last["seq"], "hash": last["hash"]}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		a.Fatal(err)
	}
	a.write(dir, audit.BundleManifest, string(raw))
}
