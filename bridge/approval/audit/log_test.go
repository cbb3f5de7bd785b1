package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestRefusedIsBounded: who tries a thousand times fills the table with a few entries and a count, cannot hide what
// somebody with a credential tries, and many addresses together are bounded too.
func TestRefusedIsBounded(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	clock := now
	l := audit.NewLog(st, nil, func() time.Time { return clock })
	try := func(n int, who store.Principal, addr func(i int) string) {
		for i := range n {
			l.Refused(audit.WithRemote(t.Context(), addr(i)), who, audit.SignInRefused, audit.OfRoute("POST /api/session"), nil)
		}
	}
	one := func(int) string { return "192.0.2.7:4711" }
	// 1000 tries of one address; then 1000 of as many addresses of one /64, then of as many networks.
	try(1000, audit.Unknown(), one)
	try(1000, audit.Unknown(), func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) })
	try(1000, audit.Unknown(), func(i int) string { return fmt.Sprintf("198.51.%d.%d:1", i/200, i%200) })
	try(3, ada(), one)
	before := entries(t, st)
	if n := len(before); n != 120+3 {
		t.Errorf("%d entries of one minute, want 120 of strangers and ada's 3", n)
	}
	for i, want := range map[int]string{0: "192.0.2.7", 20: "2001:db8::"} {
		if before[i].Remote != want || before[i].Actor != "unknown" {
			t.Errorf("entry %d: remote %q, actor %q", i, before[i].Remote, before[i].Actor)
		}
	}
	clock = clock.Add(time.Minute)
	try(1, ada(), one)
	total, rows := 0, entries(t, st)[len(before):]
	for _, e := range rows {
		var p struct{ More int }
		if err := json.Unmarshal(e.Payload, &p); err != nil && e.Actor == "unknown" {
			t.Fatal(err)
		}
		total += p.More
	}
	if want := 3000 - 120; total != want || len(rows) > 130 {
		t.Errorf("counted %d in %d entries, want %d", total, len(rows), want)
	}
	t.Logf("3004 refused attempts of a minute: %d entries", len(before)+len(rows))
	// What is counted when the server stops is written too.
	try(30, ada(), one)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	last := entries(t, st)
	if e := last[len(last)-1]; e.Actor != "ada" || e.SubjectType != "network" || string(e.Payload) == "" {
		t.Errorf("the last count: %+v", e)
	}
	if _, err := audit.Verify(t.Context(), st); err != nil {
		t.Error(err)
	}
}

func entries(t *testing.T, st store.Store) (all []store.AuditEntry) {
	t.Helper()
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page, err := st.Audit(t.Context(), store.System(), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) < 1000 {
			return all
		}
	}
}
