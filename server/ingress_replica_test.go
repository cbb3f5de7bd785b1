package server_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store/broker/local"
)

// replica is another server on the house's database, which drives nothing and has nothing
// in memory.
func (h *house) replica() *house {
	h.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	bell := eventlog.NewBell(local.New())
	id := uuid.NewString()
	sessions := bridge.New(bridge.Config{
		Store: h.store, Log: eventlog.New(eventlog.Config{Store: h.store, Bell: bell, Replica: id, Logger: logger}), Bell: bell, Replica: id,
		Agents: bridge.NewDirectory(), Logger: logger,
	})
	other := *h
	var err error
	other.server, err = server.New(server.Config{Sessions: sessions, Store: h.store, Auth: auth.None(), Metrics: server.NewMetrics(), Logger: logger})
	if err != nil {
		h.t.Fatal(err)
	}
	web := httptest.NewServer(other.server)
	other.URL = web.URL
	h.t.Cleanup(func() {
		other.server.Drain()
		web.Close()
	})
	return &other
}

// TestIngressOnAnotherReplica: the same messages under the same seqs, and a question that is
// answered there lets the Turn go on here.
func TestIngressOnAnotherReplica(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asksTwice)
	there := h.replica()
	ch := h.channel("")
	ch.invoke("r1", "s1", "may I?")
	all := ch.until("state WAITING_APPROVAL")
	ids := last(all).Detail.ApprovalIDs
	there.comesBack("on another replica", all, ids)
	far := there.channel(`,"session_id":"s1"`)
	page := there.permissions("/ws/permissions/s1")
	for range ids {
		page.next("agent_tool_permission_request")
	}
	far.approve(ids[0])
	page.respond(ids[1], `"approved":false`)
	seq := last(all).Seq
	for _, m := range ch.until("done") {
		if m.Seq > seq { // what is not from the log is not told again
			all, seq = append(all, m), m.Seq
		}
	}
	there.comesBack("on another replica, when it is done", all, nil)
}

// TestSocketsFourEyes: whoever prompted may not approve on a socket either; the question
// stays open.
func TestSocketsFourEyes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, `{"risk":"high","verdict":"require_approval","four_eyes":true}`, func(w *workshop, call bridge.Call) string {
		return brief(w.settled(call, w.invoke(call, "cut", `{"wood":"oak"}`)))
	})
	ch := w.channel("")
	ch.invoke("r1", "s1", "cut it")
	id := last(ch.until("state WAITING_APPROVAL")).Detail.ApprovalID
	ch.approve(id)
	if m := ch.next(); m.Code != "four_eyes" {
		t.Errorf("%s", m.raw)
	}
	page := w.permissions("/ws/permissions/s1")
	page.next("agent_tool_permission_request")
	page.respond(id, `"approved":true`)
	if m := page.next("error"); m.Data.Code != "four_eyes" {
		t.Errorf("%s", m.raw)
	}
	if m := page.status(); m.Data.State != "WAITING_APPROVAL" || len(m.Data.Pending) != 1 || w.ran.Load() != 0 {
		t.Errorf("%s", m.raw)
	}
}
