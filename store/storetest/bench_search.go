package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/internal/grams"
	"aqueduct/store"
)

// BenchSearch prints what a search among 100 000 threads of one user takes, beside a page of their list.
func BenchSearch(b *testing.B, s store.Store) {
	fillSearch(b, s)
	in := store.As(alice())
	list := timed(b, func() error { _, err := s.Sessions(b.Context(), in, store.Page{}); return err })
	report := fmt.Sprintf("a page of the list: %v\n", list)
	for _, query := range []string{"the", "t", "common", "of every 5000", "上海", "海", "needle", "middling word", "nothing at all", "word1 word2 word3", "ee"} {
		var found int
		took := timed(b, func() error {
			rows, _, err := s.Search(b.Context(), in, store.SearchQuery{Words: grams.Words(query)})
			found = len(rows)
			return err
		})
		report += fmt.Sprintf("%-18s %3d found, %v, %.1f pages of the list\n", query, found, took, float64(took)/float64(list))
	}
	b.Log(report)
}

// timed is the median of a few runs.
func timed(b *testing.B, once func() error) time.Duration {
	b.Helper()
	var all []time.Duration
	for range 7 {
		begun := time.Now()
		if err := once(); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begun))
	}
	return median(all)
}

func median(all []time.Duration) time.Duration {
	for i := range all {
		for j := range all[:i] {
			if all[i] < all[j] {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	return all[len(all)/2]
}

// fillSearch adds the threads, each with a title and a message of 30 words, a few of which are in all, in every fiftieth and in
// one of them.
func fillSearch(b *testing.B, s store.Store) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	const atOnce = 500
	begun := time.Now()
	for first := 0; first < filledRows; first += atOnce {
		err := s.InTx(b.Context(), func(tx store.Tx) error {
			for i := first; i < first+atOnce; i++ {
				id := uuid.Must(uuid.NewV7()).String()
				words := []string{"the common"}
				for range 28 {
					words = append(words, fmt.Sprintf("word%d", int(random.ExpFloat64()*500)))
				}
				if i%50 == 0 {
					words = append(words, "middling 上海的天气")
				}
				if i%5000 == 0 {
					words = append(words, "of every 5000")
				}
				if i == 1234 {
					words = append(words, "needle")
				}
				text := strings.Join(words, " ")
				if err := tx.InsertSession(b.Context(), store.Session{ID: id, Tenant: "acme", User: "alice", ExternalID: id, AgentID: "demo", Title: text[:40], CreatedAt: at(int64(i)), UpdatedAt: at(int64(i))}); err != nil {
					return err
				}
				m := uuid.Must(uuid.NewV7()).String()
				if err := tx.InsertMessage(b.Context(), store.Message{ID: m, SessionID: id, RunID: id, ExternalID: m, Role: "user", Data: []byte(fmt.Sprintf("%q", text)), CreatedAt: at(1)}); err != nil {
					return err
				}
				if err := tx.PutSearchText(b.Context(), store.SearchText{ID: m, SessionID: id, Body: grams.Fold(text)}); err != nil {
					return err
				}
				if err := tx.PutSearchText(b.Context(), store.SearchText{ID: id, SessionID: id, Body: grams.Fold(text[:40])}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for more := true; more; { // all texts are there
		err := s.InTx(b.Context(), func(tx store.Tx) error {
			messages, err := tx.TakeMessages(b.Context(), 1000)
			if err != nil {
				return err
			}
			titles, err := tx.TakeTitles(b.Context(), 1000)
			more = len(messages)+len(titles) > 0
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("filled in %v", time.Since(begun))
}
