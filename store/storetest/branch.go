package storetest

import (
	"fmt"
	"strings"

	"aqueduct/store"
)

// conversation is a Session whose Turns each answer one message with one.
type conversation struct {
	*storeEnv
	session store.Session
	turns   map[string]string // a Turn's id by its name
}

// addTurn adds a Turn: its message u<name>, and its answer a<name>. after is the Turn it branches from, "" for none.
func (s *conversation) addTurn(name, after string, copied ...string) {
	s.Helper()
	id := s.id()
	s.turns[name] = id
	user := append([]string{}, copied...)
	if len(copied) == 0 {
		user = []string{"u" + name}
	}
	s.tx(func(tx store.Tx) error {
		turn := store.Turn{ID: id, SessionID: s.session.ID, AgentID: "demo", Status: store.TurnDone, BranchedFrom: s.turns[after], CreatedAt: at(2)}
		if after == "start" {
			turn.BranchedFrom = store.BranchedFromStart
		}
		if err := tx.InsertTurn(s.ctx, turn); err != nil {
			return err
		}
		if err := tx.InsertRun(s.ctx, store.Run{ID: id, SessionID: s.session.ID, TurnID: id, ExternalID: "run-" + id, Status: store.RunFinished,
			FirstSeq: s.seq.Add(1), CreatedAt: at(3), ParentRunID: "p" + name, Tails: "here "}); err != nil {
			return err
		}
		if after != "" {
			if err := tx.SwitchBranch(s.ctx, s.session.ID, s.turns[after], true); err != nil {
				return err
			}
		}
		for _, u := range user {
			if err := tx.InsertMessage(s.ctx, s.newMessage(id, u, "user", false)); err != nil {
				return err
			}
		}
		return nil
	})
	s.move(store.UpsertMessage{Message: s.newMessage(id, "a"+name, "assistant", true)})
}

func (s *conversation) newMessage(run, name, role string, output bool) store.Message {
	m := newMessage(s.storeEnv, s.session.ID, name)
	m.RunID, m.Role, m.Output = run, role, output
	m.Data = fmt.Appendf(nil, `{"id":"%s","content":"in %s"}`, name, run)
	return m
}

func names(rows []store.Message) string {
	return strings.Join(idsOf(rows, func(m store.Message) string { return m.ExternalID }), " ")
}

func (s *conversation) current() string {
	s.Helper()
	return names(got[[]store.Message](s.storeEnv)(s.s.Messages(s.ctx, store.System(), s.session.ID, store.Page{})))
}

func (s *conversation) branchOf(turn string) string {
	s.Helper()
	return names(got[[]store.Message](s.storeEnv)(s.s.BranchMessages(s.ctx, store.System(), s.session.ID, s.turns[turn], store.Page{})))
}

func testBranches(env *storeEnv) {
	s := &conversation{storeEnv: env, session: env.session(alice()), turns: map[string]string{}}
	s.addTurn("1", "")
	s.addTurn("2", "")
	s.addTurn("3", "")
	s.addTurn("4", "1", "u2") // u2 again
	same(env, s.current(), "u1 a1 u2 a4")
	s.addTurn("5", "")
	s.addTurn("6", "2") // back to the first branch, u3 edited
	same(env, s.current(), "u1 a1 u2 a2 u6 a6")
	s.addTurn("7", "start", "u1") // the same id with another content
	same(env, s.current(), "u1 a7")
	for turn, want := range map[string]string{
		"1": "u1 a1", "2": "u1 a1 u2 a2", "3": "u1 a1 u2 a2 u3 a3", "4": "u1 a1 u2 a4", "5": "u1 a1 u2 a4 u5 a5",
		"6": "u1 a1 u2 a2 u6 a6", "7": "u1 a7",
	} {
		if branch := s.branchOf(turn); branch != want {
			env.Errorf("the branch of Turn %s is %q, want %q", turn, branch, want)
		}
	}
	s.addTurn("8", "5")
	same(env, s.current(), "u1 a1 u2 a4 u5 a5 u8 a8")
	for turn, want := range map[string]string{"1": "", "2": "1", "4": "1", "5": "4", "6": "2", "7": "", "8": "5"} {
		same(env, got[string](env)(env.s.TurnBefore(env.ctx, store.System(), s.turns[turn])), s.turns[want])
	}
	same(env, names(got[[]store.Message](env)(env.s.InputsOfTurn(env.ctx, store.System(), s.session.ID, s.turns["7"]))), "u1")
	s.testPlaces()
}

func (s *conversation) testPlaces() {
	place := func(name string) store.MessagePlace {
		return got[store.MessagePlace](s.storeEnv)(s.s.MessagePlace(s.ctx, store.System(), s.session.ID, name))
	}
	newest := place("u8").ID
	for name, want := range map[string]store.MessagePlace{
		"u1": {TurnID: s.turns["1"], Followed: true}, "a3": {TurnID: s.turns["3"], Replaced: true, Followed: true},
		"a5": {TurnID: s.turns["5"], Followed: true}, "u8": {TurnID: s.turns["8"], Followed: true}, "a8": {TurnID: s.turns["8"]},
	} {
		p := place(name)
		want.NewestInput, want.Message = newest, p.Message
		same(s.storeEnv, p, want)
		same(s.storeEnv, p.ExternalID, name)
	}
	_, err := s.s.MessagePlace(s.ctx, store.System(), s.session.ID, "u0")
	s.is(err, store.ErrNotFound)
	known := got[map[string]bool](s.storeEnv)(s.s.KnownMessageIDs(s.ctx, store.System(), s.session.ID, []string{"u1", "a3", "u0"}))
	same(s.storeEnv, known, map[string]bool{"u1": true, "a3": true})
	run := got[store.Run](s.storeEnv)(s.s.Run(s.ctx, store.System(), s.turns["4"]))
	same(s.storeEnv, run.ParentRunID+" "+run.Tails, "p4 here ")
}

// testLateMessages: what a Turn adds after a later one has begun gets its place, on its branch.
func testLateMessages(env *storeEnv) {
	s := &conversation{storeEnv: env, session: env.session(alice()), turns: map[string]string{}}
	s.addTurn("1", "")
	first, later := s.turns["1"], env.id()
	env.tx(func(tx store.Tx) error {
		return tx.InsertRun(env.ctx, store.Run{ID: later, SessionID: s.session.ID, TurnID: later, ExternalID: later, Status: store.RunReserved, CreatedAt: at(3)})
	})
	waits := s.newMessage(later, "u2", "user", false)
	env.move(store.UpsertMessage{Message: waits}, store.UpsertMessage{Message: s.newMessage(first, "late", "assistant", true)})
	same(env, s.current(), "u1 a1 u2 late")
	env.move(store.MoveMessage{ID: waits.ID, NewID: env.id()})
	same(env, s.current(), "u1 a1 late u2")
	env.move(store.ReplaceMessages{SessionID: s.session.ID, BeforeTurn: later})
	same(env, s.current(), "u2")
	s.testSaidAgain()
}

// testSaidAgain: a Turn that keeps a message again after a branch has begun without it can still be gone back to.
func (s *conversation) testSaidAgain() {
	s = &conversation{storeEnv: s.storeEnv, session: s.storeEnv.session(alice()), turns: map[string]string{}}
	s.addTurn("1", "")
	s.addTurn("2", "")
	s.addTurn("3", "1")
	again := s.newMessage(s.turns["2"], "a2", "assistant", true)
	s.move(store.UpsertMessage{Message: again}, store.ReplaceMessages{SessionID: s.session.ID, AfterTurn: s.turns["1"], BeforeTurn: s.turns["3"]})
	same(s.storeEnv, s.current(), "u1 a1 u3 a3")
	s.addTurn("4", "2")
	same(s.storeEnv, s.current(), "u1 a1 u2 a2 u4 a4")
}

func testRunTails(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnQueued)
	open, over := env.run(s.ID, turn.ID, store.RunReserved), env.run(s.ID, turn.ID, store.RunFinished)
	for _, step := range []struct {
		run, replica string
		there        bool
		want         string
	}{
		{open.ID, "a", true, "a "}, {open.ID, "b", true, "a b "}, {open.ID, "a", true, "b a "},
		{open.ID, "b", false, "a "}, {open.ID, "b", false, "a "}, {open.ID, "a", false, ""}, {over.ID, "a", true, ""},
	} {
		env.tx(func(tx store.Tx) error { return tx.SetRunTail(env.ctx, step.run, step.replica, step.there) })
		same(env, got[store.Run](env)(env.s.Run(env.ctx, store.System(), step.run)).Tails, step.want)
	}
}
