package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
)

func TestPageSize(t *testing.T) {
	for limit, want := range map[int]int{
		-1: store.DefaultPageLimit, 0: store.DefaultPageLimit, 1: 1, store.MaxPageLimit: store.MaxPageLimit, store.MaxPageLimit + 1: store.MaxPageLimit,
	} {
		if got := (store.Page{Limit: limit}).Size(); got != want {
			t.Errorf("limit %d gives %d, want %d", limit, got, want)
		}
	}
}

func TestEventRowFirstSeq(t *testing.T) {
	if got := (store.EventRow{LastSeq: 9, N: 4}).FirstSeq(); got != 6 {
		t.Errorf("four events that end at 9 begin at %d", got)
	}
}

// A Scope sees no more than what it was made for; what has no tenant or no user sees nothing.
func TestScopes(t *testing.T) {
	eve := store.Principal{Tenant: "acme", User: "eve", Roles: []string{"dev"}}
	approver := store.Principal{Tenant: "acme", User: "eve", Roles: []string{store.RoleApprover}}
	names := []string{"user:eve", "role:dev"}
	for name, c := range map[string]struct {
		in                  store.Scope
		tenant, user        string
		all, wide           bool
		deciders, reachable []string
	}{
		"nothing":              {},
		"as":                   {in: store.As(eve), tenant: "acme", user: "eve"},
		"within":               {in: store.Within("acme"), tenant: "acme", wide: true},
		"within no tenant":     {in: store.Within("")},
		"deciding":             {in: store.Deciding(eve), tenant: "acme", user: "eve", deciders: names},
		"deciding as approver": {in: store.Deciding(approver), tenant: "acme", wide: true},
		"deciding, no user":    {in: store.Deciding(store.Principal{Tenant: "acme"}), tenant: "acme"},
		"deciding, no tenant":  {in: store.Deciding(store.Principal{User: "eve"}), user: "eve"},
		"reaching":             {in: store.Reaching(eve), tenant: "acme", user: "eve", reachable: names},
		"reaching, no user":    {in: store.Reaching(store.Principal{Tenant: "acme"}), tenant: "acme"},
		"reaching, no tenant":  {in: store.Reaching(store.Principal{User: "eve"}), user: "eve"},
		"installation":         {in: store.Installation(), wide: true},
		"system":               {in: store.System(), all: true},
	} {
		in := c.in
		if in.Tenant() != c.tenant || in.User() != c.user || in.All() != c.all || in.Wide() != c.wide || in.Session() != "" ||
			!slices.Equal(in.Deciders(), c.deciders) || !slices.Equal(in.Reached(), c.reachable) {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// Each member of an entry changes its hash, and no text can move from one member to the next.
func TestAuditSum(t *testing.T) {
	whole := store.AuditEntry{Seq: 1, Tenant: "acme", TS: time.UnixMilli(5), Actor: "eve", Action: "x", SubjectType: "tool", SubjectID: "t",
		Payload: []byte(`{}`), PrevHash: "00", Remote: "::1"}
	// Written down, because entries that are kept already must keep their hashes: both forms.
	without := whole
	without.Remote = ""
	if whole.Sum() != "d97139d5b7569e9bb0fc04882baeb809de2a623dcbb377488efac313688b8c14" || without.Sum() != "095ceb7af5d2c6067fbac7124c9bee2cb1013a9e93a212f3acdeea7c49cedd21" {
		t.Errorf("the hash of an entry has changed: %s, %s", whole.Sum(), without.Sum())
	}
	sums := map[string]string{whole.Sum(): "as it is"}
	for name, change := range map[string]func(*store.AuditEntry){
		"seq": func(e *store.AuditEntry) { e.Seq++ }, "tenant": func(e *store.AuditEntry) { e.Tenant = "" },
		"time": func(e *store.AuditEntry) { e.TS = e.TS.Add(time.Millisecond) }, "actor": func(e *store.AuditEntry) { e.Actor = "bob" },
		"action": func(e *store.AuditEntry) { e.Action = "y" }, "type": func(e *store.AuditEntry) { e.SubjectType = "user" },
		"id": func(e *store.AuditEntry) { e.SubjectID = "u" }, "payload": func(e *store.AuditEntry) { e.Payload = []byte(`[]`) },
		"before": func(e *store.AuditEntry) { e.PrevHash = "01" }, "remote": func(e *store.AuditEntry) { e.Remote = "" },
		"moved text": func(e *store.AuditEntry) { e.Actor, e.Action = "ev", "ex" },
	} {
		e := whole
		change(&e)
		if other, twice := sums[e.Sum()]; twice {
			t.Errorf("%s has the hash of %s", name, other)
		}
		sums[e.Sum()] = name
	}
}

// A key signs hashes without giving itself away; the zero key signs nothing.
func TestAuditKey(t *testing.T) {
	key, other, none := store.NewAuditKey([]byte("secret")), store.NewAuditKey([]byte("secret2")), store.AuditKey{}
	if none.ID() != "" || none.MAC("00") != "" {
		t.Error("the zero key signs")
	}
	if len(key.ID()) != 16 || key.ID() == other.ID() || key.MAC("00") == key.MAC("01") || key.MAC("00") == other.MAC("00") {
		t.Error("keys or hashes share a signature")
	}
	if mac := key.MAC("00"); !strings.HasPrefix(mac, key.ID()+":") || strings.TrimPrefix(mac, key.ID()+":") == "" || mac != key.MAC("00") {
		t.Errorf("MAC %q of key %q", mac, key.ID())
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, key); shown != "[audit key "+key.ID()+"]" {
			t.Errorf("%s shows %s", format, shown)
		}
	}
}
