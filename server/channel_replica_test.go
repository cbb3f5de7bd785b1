package server_test

import (
	"aqueduct/store/storetest"
	"log/slog"
	"net/http/httptest"
	"testing"

	"aqueduct/bridge"
	"aqueduct/internal/app"
	"aqueduct/server"
)

// replica is another server on the env's database, which drives nothing and has nothing
// in memory.
func (h *env) replica() *env {
	h.t.Helper()
	made, err := app.New(app.Config{
		Store: h.store, Broker: storetest.Broker(), Logger: slog.New(slog.DiscardHandler), Auth: h.auth, Agents: bridge.NewDirectory(), Metrics: server.NewMetrics(),
		Registered: atHome(h.t),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	other := *h
	other.server = made.Server
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
	h := newEnv(t, asksTwice)
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
		if m.Seq > seq { // what is not from the log is not sent again
			all, seq = append(all, m), m.Seq
		}
	}
	there.comesBack("on another replica, when it is done", all, nil)
}

// TestSocketsFourEyes: the user who prompted may not approve on a socket either; the question stays open.
func TestSocketsFourEyes(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, `{"risk":"high","verdict":"require_approval","four_eyes":true}`, func(w *toolEnv, call bridge.Call) string {
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
