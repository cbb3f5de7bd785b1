package storetest

import (
	"fmt"
	"slices"

	"aqueduct/internal/grams"
	"aqueduct/store"
)

// searched brings the search up to date, as bridge/search does, with the Data of messages as their text.
func searched(env *storeEnv) {
	env.Helper()
	for more := true; more; {
		env.tx(func(tx store.Tx) error {
			messages, err := tx.TakeMessages(env.ctx, 7)
			if err != nil {
				return err
			}
			titles, err := tx.TakeTitles(env.ctx, 7)
			more = len(messages)+len(titles) > 0
			for _, m := range messages {
				if err == nil {
					err = tx.PutSearchText(env.ctx, store.SearchText{ID: m.ID, SessionID: m.SessionID, Body: grams.Fold(string(m.Data))})
				}
			}
			for _, s := range titles {
				if err == nil {
					err = tx.PutSearchText(env.ctx, store.SearchText{ID: s.ID, SessionID: s.ID, Body: grams.Fold(s.Title)})
				}
			}
			return err
		})
	}
}

// finds checks which Sessions a search finds.
func finds(env *storeEnv, in store.Scope, query string, want ...store.Session) {
	env.Helper()
	got, next, err := env.s.Search(env.ctx, in, store.SearchQuery{Words: grams.Words(query)})
	env.ok(err)
	ids := func(s store.Session) string { return s.ID }
	if a, b := idsOf(got, ids), idsOf(want, ids); !slices.Equal(a, b) || next != "" {
		env.Errorf("%q finds %v, want %v; next %q", query, a, b, next)
	}
}

// say adds a message to a Session.
func say(env *storeEnv, s store.Session, text string) store.Message {
	env.Helper()
	m := store.Message{ID: env.id(), SessionID: s.ID, RunID: env.id(), ExternalID: env.id(), Role: "user", Data: []byte(fmt.Sprintf("%q", text)), CreatedAt: at(1)}
	env.tx(func(tx store.Tx) error { return tx.InsertMessage(env.ctx, m) })
	return m
}

// testSearch: words of one, two and more characters of titles and messages, of one's own threads alone.
func testSearch(env *storeEnv) {
	a, b, foreign := env.session(alice()), env.session(alice()), env.session(bob())
	env.move(store.SessionMove{ID: a.ID, Title: "Quarterly Überblick", UpdatedAt: at(20)})
	env.move(store.SessionMove{ID: b.ID, UpdatedAt: at(10)})
	say(env, a, "The harbour of Hamburg, at dawn")
	m := say(env, b, "请帮我查询上海的天气, by 5 pm")
	say(env, foreign, "harbour 天气")
	alices := store.As(alice())
	finds(env, alices, "harbour") // not yet
	searched(env)
	for query, want := range map[string][]store.Session{
		"harbour": {a}, "HARB": {a}, "arbou": {a}, "hamburg dawn": {a}, "quarterly": {a}, "überb": {a}, "ÜBER": {a}, "harbour quarterly": nil,
		"天气": {b}, "上海的天": {b}, "查": {b}, "海": {b}, "5": {b}, "pm": {b}, "天上": nil, "ｐｍ": {b}, "天气 pm": {b}, "harbor": nil, "%": nil, "_": nil,
		"harbour OR dawn": nil, "*": nil, "x'": nil,
	} {
		finds(env, alices, query, want...)
	}
	finds(env, store.As(bob()), "天气", foreign)
	finds(env, store.As(carol()), "天气")
	finds(env, store.As(store.Principal{Tenant: "other", User: "alice"}), "harbour")
	finds(env, store.As(store.Principal{}), "harbour")

	// The old text is not found from the change on, and the new one once the search has it.
	m.Data = []byte(`"now about Beijing"`)
	env.move(store.UpsertMessage{Message: m})
	finds(env, alices, "天气")
	searched(env)
	finds(env, alices, "天气")
	finds(env, alices, "beijing", b)
	env.tx(func(tx store.Tx) error { return tx.SetSessionTitle(env.ctx, a.ID, "Renamed") })
	finds(env, alices, "quarterly")
	searched(env)
	finds(env, alices, "quarterly")
	finds(env, alices, "renamed", a)
	finds(env, alices, "harbour", a)

	env.move(store.MoveMessage{ID: m.ID, NewID: env.id()})
	finds(env, alices, "beijing", b)

	// What stands on an older branch only is not found.
	c := &conversation{storeEnv: env, session: env.session(alice()), turns: map[string]string{}}
	c.addTurn("1", "")
	c.addTurn("2", "")
	searched(env)
	finds(env, alices, `"id":"u2"`, c.session)
	c.addTurn("4", "1")
	finds(env, alices, `"id":"u2"`)
	searched(env)
	finds(env, alices, `"id":"u4"`, c.session)
	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, a.ID, at(30)) })
	finds(env, alices, "harbour")
	finds(env, alices, "renamed")
}

// testSearchShared: a thread that is shared is found by those it is shared with, for as long as it is.
func testSearchShared(env *storeEnv) {
	s := env.session(alice())
	say(env, s, "the secret garden")
	searched(env)
	reach := store.Reaching(bob())
	finds(env, reach, "garden")
	h := store.Share{ID: env.id(), SessionID: s.ID, Tenant: "acme", To: "user:bob", CreatedBy: "alice", CreatedAt: at(3)}
	env.tx(func(tx store.Tx) error { return tx.PutShare(env.ctx, h) })
	finds(env, reach, "garden", s)
	finds(env, reach, "secret garden", s)
	finds(env, store.Reaching(carol()), "garden")
	env.tx(func(tx store.Tx) error {
		_, err := tx.DeleteShare(env.ctx, s.ID, h.ID)
		return err
	})
	finds(env, reach, "garden")
}

// testSearchPages: pages of a rare word and of a common one have each Session once, in the order of the list.
func testSearchPages(env *storeEnv) {
	var want []string
	for i := range 30 {
		s := env.session(alice())
		env.move(store.SessionMove{ID: s.ID, UpdatedAt: at(int64(100 + i))})
		say(env, s, fmt.Sprintf("number %d of many", i))
		say(env, s, "and many more")
		if i%3 == 0 {
			env.tx(func(tx store.Tx) error { return tx.SetSessionArchived(env.ctx, s.ID, true) })
		}
		want = append([]string{s.ID}, want...)
	}
	searched(env)
	pages := func(q store.SearchQuery) (all []string) {
		env.Helper()
		q.Limit = 4
		for range 20 {
			got, next, err := env.s.Search(env.ctx, store.As(alice()), q)
			env.ok(err)
			for _, s := range got {
				all = append(all, s.ID)
			}
			if q.After = next; next == "" {
				return all
			}
		}
		env.Errorf("no end of pages")
		return all
	}
	yes, no := true, false
	same(env, pages(store.SearchQuery{Words: []string{"many"}}), want)
	archived := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return (29-slices.Index(want, id))%3 != 0 })
	same(env, pages(store.SearchQuery{Words: []string{"many"}, Archived: &yes}), archived)
	same(env, len(pages(store.SearchQuery{Words: []string{"many"}, Archived: &no})), 20)
	listed := func(archived bool) []string {
		return idsOf(got[[]store.Session](env)(env.s.SessionsArchived(env.ctx, store.As(alice()), archived, store.Page{})), func(s store.Session) string { return s.ID })
	}
	same(env, listed(true), archived)
	same(env, len(listed(false)), 20)
	same(env, idsOf(got[[]store.Session](env)(env.s.Sessions(env.ctx, store.As(alice()), store.Page{})), func(s store.Session) string { return s.ID }), want)
}
