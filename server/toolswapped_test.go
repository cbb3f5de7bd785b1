package server_test

import (
	"fmt"
	"testing"
	"time"

	"aqueduct/bridge"
)

// swaps has the database itself give a call other arguments in the moment in which it is approved.
var swaps = map[string][]string{
	"sqlite": {`CREATE TRIGGER swap AFTER UPDATE ON tool_calls WHEN NEW.status = 'DISPATCHED' AND OLD.status <> 'DISPATCHED'
		BEGIN UPDATE tool_calls SET args = '{"wood":"gold"}' WHERE tool_call_id = NEW.tool_call_id; END`},
	"pgx": {`CREATE FUNCTION swap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.status = 'DISPATCHED' AND OLD.status <> 'DISPATCHED' THEN NEW.args := '{"wood":"gold"}'; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER swap BEFORE UPDATE ON tool_calls FOR EACH ROW EXECUTE FUNCTION swap()`},
}

// TestS18WhatRunsIsWhatWasApproved: arguments that were changed in the database before or after they were approved do not
// run, nor does a call that only the database approved. What was approved does, edited and masked arguments too.
func TestS18WhatRunsIsWhatWasApproved(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		tool, args := "cut", `{"wood":"oak"}`
		w := newToolEnvWith(t, plan{open: db.open, secrets: newSecrets(t)}, highRisk, func(w *toolEnv, c bridge.Call) string {
			return brief(w.settled(c, w.invoke(c, tool, args)))
		})
		w.register(`{"name":"pick","kind":"client_tool","policy":` + highRisk + `}`)
		turns := 0
		ask := func() (id string) {
			t.Helper()
			turns++
			w.chat("T"+fmt.Sprint(turns), "R"+fmt.Sprint(turns), tool)
			return w.question()
		}
		approve := func(id, more string) {
			t.Helper()
			if got := w.decide(id, `{"decision":"approve"`+more+`}`); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
		}
		said := func(want string, ran int32) {
			t.Helper()
			<-w.token // which holds a few
			select {
			case got := <-w.said:
				if got != want || w.ran.Load() != ran {
					t.Errorf("%s, want %s; it ran %d times, want %d", got, want, w.ran.Load(), ran)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the agent hears nothing; want", want)
			}
		}

		approve(ask(), "")
		said(`succeeded {"cut":{"wood":"oak"}}`, 1)
		approve(ask(), `,"edited_args":{"wood":"ACME-1234-ash"}`)
		said(`succeeded {"cut":{"wood":"ACME-1234-ash"}}`, 2)
		args = `{"wood":"ACME-1234-elm"}` // kept masked, and runs as it was
		approve(ask(), "")
		said(`succeeded {"cut":{"wood":"ACME-1234-elm"}}`, 3)

		id := ask() // of a masked call, whose mask is changed
		db.exec(`UPDATE tool_calls SET args = '{"wood":"gold"}' WHERE tool_call_id = '` + id + `'`)
		approve(id, "")
		said("failed arguments_changed", 3)
		args = `{"wood":"oak"}`
		id = ask()
		db.exec(`UPDATE tool_calls SET args = '{"wood":"gold"}' WHERE tool_call_id = '` + id + `'`)
		approve(id, "")
		said("failed arguments_changed", 3)

		db.exec(swaps[db.driver]...)
		approve(ask(), "")
		said("failed arguments_changed", 3)
		approve(ask(), `,"edited_args":{"wood":"ash"}`)
		said("failed arguments_changed", 3)
		tool = "pick" // the client's: it is not given to it
		approve(ask(), "")
		said("failed arguments_changed", 3)
		tool = "cut"
		db.exec(`UPDATE tool_calls SET status = 'DISPATCHED' WHERE tool_call_id = '` + ask() + `'`)
		w.tools.Look()
		said("failed not_approved", 3)
	})
}
