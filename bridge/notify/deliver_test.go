package notify_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/notify"
	"aqueduct/bridge/outbound"
	"aqueduct/store"
)

// TestDelivery: a row that was committed together with its cause arrives, signed, once.
func TestDelivery(t *testing.T) {
	t.Parallel()
	there := newHook(t, nil)
	st := openStore(t)
	h := newEnv(t, st, target(there))
	replica := uuid.NewString()
	if err := st.Register(t.Context(), store.Replica{ID: replica, Name: "n"}); err != nil {
		t.Fatal(err)
	}
	q := asked()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		s := session
		s.CreatedAt, s.UpdatedAt = start, start
		q.Approval.TurnID = "turn-1"
		return errors.Join(tx.InsertSession(t.Context(), s), tx.InsertTurn(t.Context(), store.Turn{
			ID: "turn-1", SessionID: s.ID, AgentID: "a", Status: store.TurnRunning, CreatedAt: start,
			Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tracestate: "v=1",
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	var moves []store.Move
	for _, row := range h.Rows(q, session) {
		moves = append(moves, store.InsertOutbox{Item: row})
	}
	if _, err := st.Commit(t.Context(), &store.Batch{Replica: replica, Moves: moves}); err != nil {
		t.Fatal(err)
	}
	row, _ := h.row()
	h.run()
	got := <-there.got
	if err := notify.Verify(secret, got.header.Get(notify.HeaderSignature), []byte(got.body), start, 0); err != nil {
		t.Error(err)
	}
	if span := got.header.Get("Traceparent"); !strings.HasPrefix(span, "00-4bf92f3577b34da6a3ce929d0e0e4736-") || strings.Contains(span, "00f067aa0ba902b7") || got.header.Get("Tracestate") != "v=1" {
		t.Errorf("%v", got.header)
	}
	if got.header.Get(notify.HeaderDelivery) != row.ID || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got.header)
	}
	for _, want := range []string{`"type":"question.opened"`, `"id":"` + q.Approval.ID, `"thread_id":"thread-1"`, `"tool":"deploy"`, `"risk":"high"`,
		`"args_sha256":"abc123"`, `"expires_at":"2026-11-21T12:10:00Z"`, `"link":"https://aqueduct.example/decide/`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s is not in %s", want, got.body)
		}
	}
	if strings.Contains(got.body, "hunter2") || strings.Contains(got.body, "approver") {
		t.Errorf("%s", got.body)
	}
	if said := <-h.said; said != "sent" {
		t.Error(said)
	}
	if _, waits := h.row(); waits {
		t.Error("it is still to be told")
	}
}

// TestRetries: again after twice as long each time, an hour at most, for a day; then the
// row stays with its last error. Each try bears the same id and the same link.
func TestRetries(t *testing.T) {
	t.Parallel()
	there := newHook(t, status(http.StatusInternalServerError))
	h := newEnv(t, openStore(t), target(there))
	q := asked()
	q.Approval.ExpiresAt = start.Add(48 * time.Hour)
	h.keep(h.Rows(q, session)...)
	h.run()
	first, tries := delivery{}, 0
	for wait := 5 * time.Second; ; wait = min(2*wait, time.Hour) {
		got := <-there.got
		if tries++; tries == 1 {
			first = got
		}
		if got.body != first.body || got.header.Get(notify.HeaderDelivery) != first.header.Get(notify.HeaderDelivery) {
			t.Fatalf("try %d differs", tries)
		}
		said := <-h.said
		row, _ := h.row()
		if said == "gave_up" {
			if row.Tries != tries || row.LastError != "gave up: HTTP 500" {
				t.Errorf("%+v", row)
			}
			break
		}
		if next := row.NextAt.Sub(h.clock.Now()); next != wait || row.LastError != "HTTP 500" {
			t.Fatalf("try %d: next in %s, want %s; %s", tries, next, wait, row.LastError)
		}
		h.after(wait)
	}
	if lasted := h.clock.Now().Sub(start); lasted > 24*time.Hour || lasted < 22*time.Hour {
		t.Errorf("%d tries in %s", tries, lasted)
	}
	h.after(48 * time.Hour)
	h.run()() // a look finds nothing to do
	if len(there.got) != 0 {
		t.Error("what was given up is sent")
	}
}

// TestOldDeliveriesGo: what was sent, or given up, is gone a week later, and not before; what
// is still to be sent stays.
func TestOldDeliveriesGo(t *testing.T) {
	t.Parallel()
	there := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aqueduct-Delivery") == "1" {
			w.WriteHeader(http.StatusGone)
		}
	})
	h := newEnvWith(t, openStore(t), notify.Config{Others: map[string]notify.Address{
		"ingress": func(i store.OutboxItem) (notify.Delivery, error) {
			return notify.Delivery{URL: there.URL, Secret: secret, Body: i.Payload}, nil
		},
	}})
	h.keep(store.OutboxItem{ID: "0", Kind: "ingress", CreatedAt: start}, store.OutboxItem{ID: "1", Kind: "ingress", CreatedAt: start},
		store.OutboxItem{ID: "2", Kind: "mail", CreatedAt: start}) // no worker sends this kind
	h.run()
	if said := map[string]bool{<-h.said: true, <-h.said: true}; !said["sent"] || !said["gave_up"] {
		t.Fatalf("%v", said)
	}
	for day := 1; day <= 8; day++ {
		h.after(24 * time.Hour)
		for i := range 2 { // when the second is sent, the round of the first is over, with its sweep
			h.keep(store.OutboxItem{ID: fmt.Sprint(day, "-", i), Kind: "ingress", CreatedAt: h.clock.Now()})
			h.Kick()
			<-h.said
		}
		want := map[bool]string{true: "012", false: "2"}[day <= 7]
		if got := h.there("0", "1", "2"); got != want {
			t.Errorf("after %d days %s are there, not %s", day, got, want)
		}
	}
	if row, waits := h.row(); !waits || row.ID != "2" {
		t.Errorf("%+v", row)
	}
}

// there are those of the ids whose rows are kept, sent or not.
func (h *env) there(ids ...string) (found string) {
	h.t.Helper()
	back := errors.New("nothing is to be changed")
	for _, id := range ids {
		err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
			return errors.Join(tx.InsertOutbox(h.t.Context(), store.OutboxItem{ID: id}), back)
		})
		if errors.Is(err, store.ErrConflict) {
			found += id
		}
	}
	return found
}

// TestAnswers: what each answer of a target leads to.
func TestAnswers(t *testing.T) {
	t.Parallel()
	after := func(code int, value string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(code)
		}
	}
	elsewhere := newHook(t, nil)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		said   string
		reason string
		next   time.Duration
	}{
		"204": {status(204), "sent", "", 0},
		"410": {status(410), "gave_up", "gave up: HTTP 410", -1},
		"404": {status(404), "failed", "HTTP 404", 5 * time.Second},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "failed", "HTTP 307", 5 * time.Second},
		"busy":       {after(429, "90"), "failed", "HTTP 429", 90 * time.Second},
		"until":      {after(503, start.Add(time.Minute).Format(http.TimeFormat)), "failed", "HTTP 503", time.Minute},
		"too long":   {after(503, "999999"), "failed", "HTTP 503", time.Hour},
		"not a time": {after(503, "soon"), "failed", "HTTP 503", 5 * time.Second},
		"cut":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "failed", "unreachable", 5 * time.Second},
		"flood":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, "sent", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, openStore(t), target(newHook(t, c.answer)))
			h.keep(h.Rows(asked(), session)...)
			h.run()
			if said := <-h.said; said != c.said {
				t.Error(said)
			}
			row, waits := h.row()
			if waits != (c.said != "sent") || row.LastError != c.reason {
				t.Errorf("%+v", row)
			}
			if c.next > 0 && row.NextAt.Sub(start) != c.next {
				t.Errorf("next in %s", row.NextAt.Sub(start))
			}
		})
	}
	t.Cleanup(func() {
		if len(elsewhere.got) != 0 {
			t.Error("somebody else was told")
		}
	})
}

// TestTargetsInside: a webhook does not lead inwards either.
func TestTargetsInside(t *testing.T) {
	t.Parallel()
	there := newHook(t, nil)
	gate, err := outbound.New(outbound.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	h := newEnvWith(t, openStore(t), notify.Config{Targets: []notify.Target{target(there)}, Client: gate.Client()})
	h.keep(h.Rows(asked(), session)...)
	h.run()
	<-h.said
	if row, _ := h.row(); row.LastError != "loopback_address" || len(there.got) != 0 {
		t.Errorf("%+v", row)
	}
}

// TestTwoReplicas: each of many rows is sent by one of them.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	there := newHook(t, nil)
	st := openStore(t)
	a, b := newEnv(t, st, target(there)), newEnv(t, st, target(there))
	const rows = 40
	for range rows {
		a.keep(a.Rows(asked(), session)...)
	}
	stopA, stopB := a.run(), b.run()
	seen := make(map[string]bool)
	for range rows {
		d := (<-there.got).header.Get(notify.HeaderDelivery)
		if seen[d] {
			t.Errorf("%s twice", d)
		}
		seen[d] = true
		select {
		case <-a.said:
		case <-b.said:
		}
	}
	stopA()
	stopB()
	if len(there.got) != 0 {
		t.Errorf("%d more", len(there.got))
	}
}

// TestAfterACrash: what a replica claimed and did not see to is sent when its claim has
// run out.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	there := newHook(t, nil)
	h := newEnv(t, openStore(t), target(there))
	h.keep(h.Rows(asked(), session)...)
	row, _ := h.row()
	err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.ClaimOutbox(t.Context(), row, start, start.Add(time.Minute))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.run()() // sees nothing that is due
	if len(there.got) != 0 {
		t.Fatal("sent although somebody is at it")
	}
	h.run()
	h.after(time.Minute)
	<-there.got
	if said := <-h.said; said != "sent" {
		t.Error(said)
	}
}

// TestLeaving: a server that stops gives back what it is sending, for the next to send.
func TestLeaving(t *testing.T) {
	t.Parallel()
	there := newHook(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h := newEnv(t, openStore(t), target(there))
	h.keep(h.Rows(asked(), session)...)
	stop := h.run()
	<-there.got
	stop()
	if row, waits := h.row(); !waits || !row.NextAt.Equal(start) || !row.ClaimedUntil.IsZero() || row.LastError != "interrupted" {
		t.Errorf("%+v", row)
	}
}

// TestOneHangs: a target that does not answer holds up no other.
func TestOneHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newHook(t, func(http.ResponseWriter, *http.Request) { <-release })
	quick := newHook(t, nil)
	h := newEnv(t, openStore(t), notify.Target{Name: "slow", URL: slow.URL, Secret: secret}, notify.Target{Name: "quick", URL: quick.URL, Secret: secret})
	for range 30 {
		h.keep(h.Rows(asked(), session)...)
	}
	h.run()
	for range 30 {
		<-quick.got
	}
	if n := len(slow.got); n > 4 {
		t.Errorf("%d at once to one target", n)
	}
	close(release)
}

// hung makes n targets that never answer, each with more due rows than one look reads, and older than all others.
func hung(t *testing.T, n int) (targets []notify.Target) {
	t.Helper()
	release := make(chan struct{})
	for i := range n {
		slow := newHook(t, func(http.ResponseWriter, *http.Request) { <-release })
		targets = append(targets, notify.Target{Name: fmt.Sprint("hangs-", i), URL: slow.URL, Secret: secret, Types: []string{"question.opened"}, Tenant: session.Tenant})
	}
	t.Cleanup(func() { close(release) }) // before the targets close
	return targets
}

// TestTargetsThatHangStarveNobody: a target gets its deliveries while others have more due than fits into a look, and more
// under way than any bound on all of them could be.
func TestTargetsThatHangStarveNobody(t *testing.T) {
	t.Parallel()
	well := newHook(t, nil)
	h := newEnv(t, openStore(t), append(hung(t, 5), notify.Target{Name: "well", URL: well.URL, Secret: secret, Tenant: "other"})...)
	var rows []store.OutboxItem
	for range 300 {
		rows = append(rows, h.Rows(asked(), session)...)
	}
	h.keep(rows...)
	h.clock.forward(time.Second) // those of the others are the oldest
	other := session
	other.Tenant = "other"
	for range 20 {
		h.keep(h.Rows(asked(), other)...)
	}
	h.run()
	for range 20 {
		select {
		case <-well.got:
		case <-time.After(30 * time.Second):
			t.Fatal("a target waits for others that hang")
		}
	}
}

// TestP95BesideATargetThatHangs: how long a delivery takes is the same with and without another target that hangs, as
// medians of interleaved rounds.
func TestP95BesideATargetThatHangs(t *testing.T) {
	const (
		rounds, bursts, atOnce = 5, 8, 4
		answers                = 100 * time.Millisecond // of which a busy machine's delays are a small part
		most                   = 1.2
	)
	measure := func(hang bool) time.Duration {
		well := newHook(t, func(http.ResponseWriter, *http.Request) { time.Sleep(answers) })
		targets := []notify.Target{{Name: "well", URL: well.URL, Secret: secret, Tenant: "other"}}
		if hang {
			targets = append(targets, hung(t, 1)...)
		}
		h := newEnv(t, openStore(t), targets...)
		var rows []store.OutboxItem
		for range 300 {
			rows = append(rows, h.Rows(asked(), session)...)
		}
		h.keep(rows...)
		stop := h.run()
		defer stop()
		other := session
		other.Tenant = "other"
		var took []time.Duration
		for range bursts {
			for range atOnce {
				h.keep(h.Rows(asked(), other)...)
			}
			begun := time.Now()
			h.Kick()
			for range atOnce {
				if said := <-h.said; said != "sent" {
					t.Fatal(said)
				}
				took = append(took, time.Since(begun))
			}
		}
		slices.Sort(took)
		return took[len(took)*95/100]
	}
	var without, with []time.Duration
	for range rounds {
		without, with = append(without, measure(false)), append(with, measure(true))
	}
	slices.Sort(without)
	slices.Sort(with)
	ratio := float64(with[rounds/2]) / float64(without[rounds/2])
	t.Logf("p95 alone %v, beside one that hangs %v: × %.2f", without[rounds/2], with[rounds/2], ratio)
	if ratio > most {
		t.Errorf("p95 is × %.2f beside a target that hangs, target %.1f", ratio, most)
	}
}

// TestOtherKinds: rows of others are sent the same way, or left alone.
func TestOtherKinds(t *testing.T) {
	t.Parallel()
	there := newHook(t, nil)
	h := newEnvWith(t, openStore(t), notify.Config{Others: map[string]notify.Address{
		"ingress": func(i store.OutboxItem) (notify.Delivery, error) {
			if i.Target == "" {
				return notify.Delivery{}, errors.New("nobody")
			}
			return notify.Delivery{URL: i.Target, Secret: secret, Body: i.Payload}, nil
		},
	}})
	for n, i := range []store.OutboxItem{{Kind: "ingress", Target: there.URL}, {Kind: "mail", Target: there.URL}, {Kind: "ingress"}} {
		i.ID, i.Payload, i.CreatedAt = strconv.Itoa(n), []byte(`{"n":1}`), start
		h.keep(i)
	}
	h.run()
	if got := <-there.got; got.body != `{"n":1}` || got.header.Get(notify.HeaderSignature) == "" {
		t.Errorf("%+v", got)
	}
	said := map[string]bool{<-h.said: true, <-h.said: true}
	if !said["sent"] || !said["gave_up"] {
		t.Errorf("%v", said)
	}
	due, err := h.due(start)
	if err != nil || len(due) != 1 || due[0].Kind != "mail" || due[0].Tries != 0 {
		t.Errorf("%+v, %v", due, err)
	}
}
