package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

var now = time.UnixMilli(1_700_000_000_000).UTC()

func ada() store.Principal { return store.Principal{Tenant: "acme", User: "ada"} }

// chain is an audit in memory, which a test may forge.
type chain []store.AuditEntry

func (c chain) Audit(_ context.Context, _ store.Scope, after int64, limit int) ([]store.AuditEntry, error) {
	var got []store.AuditEntry
	for _, e := range c {
		if e.Seq > after && len(got) < limit {
			got = append(got, e)
		}
	}
	return got, nil
}

func chained(n int) chain {
	var c chain
	prev := ""
	for i := range n {
		e := store.AuditEntry{Seq: int64(i + 1), Tenant: "acme", TS: now, Actor: "ada", Action: audit.ApprovalDecided, PrevHash: prev}
		e.Hash = e.Sum()
		prev, c = e.Hash, append(c, e)
	}
	return c
}

func TestVerifyWholeChains(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 999, 1000, 1001, 2000} {
		c := chained(n)
		head, err := audit.Verify(t.Context(), c)
		if err != nil || head.Seq != int64(n) || n > 0 && head.Hash != c[n-1].Hash {
			t.Errorf("%d: %+v %v", n, head, err)
		}
	}
}

// TestVerifyFindsForgery names the first entry that is not as it was.
func TestVerifyFindsForgery(t *testing.T) {
	t.Parallel()
	rehash := func(e *store.AuditEntry) { e.Hash = e.Sum() }
	for name, c := range map[string]struct {
		forge func(chain) chain
		want  int64
	}{
		"another actor":   {func(c chain) chain { c[4].Actor = "eve"; return c }, 5},
		"another tenant":  {func(c chain) chain { c[4].Tenant = "evil"; return c }, 5},
		"another time":    {func(c chain) chain { c[4].TS = now.Add(time.Millisecond); return c }, 5},
		"another payload": {func(c chain) chain { c[4].Payload = []byte(`{}`); return c }, 5},
		"moved between members": {func(c chain) chain {
			c[4].Actor, c[4].Action = "adaapproval", ".decided"
			return c
		}, 5},
		"hashed again":         {func(c chain) chain { c[4].Actor = "eve"; rehash(&c[4]); return c }, 6},
		"taken from between":   {func(c chain) chain { return append(c[:4], c[5:]...) }, 5},
		"taken from the start": {func(c chain) chain { return c[1:] }, 1},
		"numbered anew": {func(c chain) chain {
			c = append(c[:4], c[5:]...)
			for i := 4; i < len(c); i++ {
				c[i].Seq--
				rehash(&c[i])
			}
			return c
		}, 5},
		"another beginning": {func(c chain) chain { c[0].PrevHash = c[9].Hash; rehash(&c[0]); return c }, 1},
	} {
		head, err := audit.Verify(t.Context(), c.forge(chained(10)))
		var broken *audit.Broken
		if !errors.As(err, &broken) || broken.Seq != c.want || head.Seq != c.want-1 {
			t.Errorf("%s: %+v %v", name, head, err)
		}
	}
}

// TestVerifyKnowsHeads: a chain that was cut off, or written anew, is whole in itself.
func TestVerifyKnowsHeads(t *testing.T) {
	t.Parallel()
	c := chained(10)
	at7, at10 := audit.Head{Seq: 7, Hash: c[6].Hash}, audit.Head{Seq: 10, Hash: c[9].Hash}
	if _, err := audit.Verify(t.Context(), c, at7, at10, audit.Head{}); err != nil {
		t.Error(err)
	}
	var broken *audit.Broken
	if _, err := audit.Verify(t.Context(), c[:8], at7, at10); !errors.As(err, &broken) || broken.Seq != 9 {
		t.Errorf("cut: %v", err)
	}
	if _, err := audit.Verify(t.Context(), c, audit.Head{Seq: 7, Hash: c[5].Hash}); !errors.As(err, &broken) || broken.Seq != 7 {
		t.Errorf("another hash: %v", err)
	}
}

func TestVerifyWhatTheStoreKeeps(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, details := range []any{nil, map[string]string{"status": "APPROVED\x00"}, "text"} {
		e, err := audit.Entry(ada(), audit.ApprovalDecided, audit.OfApproval("a1"), details, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.InTx(t.Context(), func(tx store.Tx) error { _, err := tx.AppendAudit(t.Context(), e); return err }); err != nil {
			t.Fatal(err)
		}
	}
	head, err := audit.Verify(t.Context(), st)
	if err != nil || head.Seq != 3 || len(head.Hash) != 64 {
		t.Errorf("%+v %v", head, err)
	}
}

func TestEntry(t *testing.T) {
	t.Parallel()
	e, err := audit.Entry(ada(), audit.GrantRevoked, audit.OfGrant("g1"), struct {
		Note string `json:"note"`
	}{"x"}, now)
	if err != nil || e.Tenant != "acme" || e.Actor != "ada" || e.Action != "grant.revoked" || e.SubjectType != "grant" ||
		e.SubjectID != "g1" || string(e.Payload) != `{"note":"x"}` || !e.TS.Equal(now) {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := audit.Entry(audit.Nobody("acme"), audit.ToolCallSettled, audit.OfApproval("c"), make(chan int), now); err == nil {
		t.Error("what is no JSON was taken")
	}
}
