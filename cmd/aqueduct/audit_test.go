package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// audited is a database with n entries.
func audited(t *testing.T, n int) (path string) {
	t.Helper()
	path = storetest.SQLite(t)
	st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for range n {
		e, err := audit.Entry(store.LocalPrincipal(), audit.ApprovalDecided, audit.OfApproval("a"), nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := st.InTx(t.Context(), func(tx store.Tx) error { _, err := tx.AppendAudit(t.Context(), e); return err }); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestAuditVerify(t *testing.T) {
	t.Parallel()
	path := audited(t, 3)
	verify := func(args ...string) (string, error) {
		t.Helper()
		return program(t, env(), append([]string{"audit", "verify", "--database", "sqlite:" + path}, args...)...)
	}
	out, err := verify()
	if err != nil || !strings.HasPrefix(out, "3 entries, unbroken\nhead 3:") {
		t.Fatalf("%q %v", out, err)
	}
	_, head, _ := strings.Cut(strings.Split(out, "\n")[1], " ")
	if _, err := verify("--head", head); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"4:" + head[2:], "3:00", "2:" + head[2:], "x", "3:", "-1:a"} {
		if out, err := verify("--head", bad); err == nil || out != "" {
			t.Errorf("%s: %q", bad, out)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"DROP TRIGGER audit_no_update", "UPDATE audit SET actor = 'eve' WHERE seq = 2"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := verify(); err == nil || !strings.Contains(fmt.Sprint(err), "broken at 2") || out != "" {
		t.Errorf("%q %v", out, err)
	}
}

func TestAuditVerifyMakesNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := program(t, env(), "audit", "verify", "--database", "sqlite:"+path); err == nil {
		t.Error("verified what is not there")
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 0 {
		t.Errorf("left %v %v", left, err)
	}
}

func TestAuditOfNothingIsWhole(t *testing.T) {
	t.Parallel()
	out, err := program(t, env(), "audit", "verify", "--database", "sqlite:"+audited(t, 0), "--head", "0:")
	if err != nil || !strings.HasPrefix(out, "0 entries, unbroken\nhead 0:") {
		t.Errorf("%q %v", out, err)
	}
}
