package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"aqueduct/store"
)

// waiting are lines of Tasks, each written as agent/user and the ids of what waits in it.
type waiting map[string][]string

// chosen is what choose picks, the ids in its order, and which lines it read.
func (w waiting) chosen(t *testing.T, r room) (ids, read []string) {
	t.Helper()
	var lines []store.TaskLine
	for name, tasks := range w {
		agent, user, _ := strings.Cut(name, "/")
		lines = append(lines, store.TaskLine{AgentID: agent, Tenant: "acme", User: user, Oldest: slices.Min(tasks)})
	}
	got, err := r.choose(lines, func(line store.TaskLine, most int) (next []store.Task, err error) {
		name := line.AgentID + "/" + line.User
		read = append(read, name)
		for _, id := range w[name][:min(most, len(w[name]))] {
			next = append(next, store.Task{ID: id, Tenant: line.Tenant, User: line.User, AgentID: line.AgentID})
		}
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range got {
		ids = append(ids, task.ID)
	}
	return ids, read
}

// has is a room with so many places for each agent, in which users have something under way.
func has(places int, owners map[string]int) room {
	r := room{perAgent: places, askingPerUser: 2, agents: make(map[string]int), owners: make(map[string]int), asking: make(map[string]int)}
	for user, n := range owners {
		r.owners[ownerOf("acme", user)] = n
	}
	return r
}

// TestChoose: who has least under way comes first, then who waits the longest; within a line its own order counts.
func TestChoose(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		places int
		owners map[string]int
		lines  waiting
		want   string
	}{
		"nothing waits":               {3, nil, waiting{}, ""},
		"one line, as far as it goes": {2, nil, waiting{"a/ann": {"3", "1", "2"}}, "3 1"},
		"users by turns":              {4, nil, waiting{"a/ann": {"1", "2", "3", "4"}, "a/bob": {"5", "6"}}, "1 5 2 6"},
		"one has much under way":      {3, map[string]int{"ann": 2}, waiting{"a/ann": {"1", "2"}, "a/bob": {"5", "6"}}, "5 6 1"},
		"more places than tasks":      {9, nil, waiting{"a/ann": {"1"}, "a/bob": {"2"}}, "1 2"},
		"agents have places apart":    {1, nil, waiting{"a/ann": {"1"}, "b/ann": {"2"}}, "1 2"},
		"a user counts at all agents": {1, nil, waiting{"a/ann": {"1"}, "b/ann": {"2"}, "b/bob": {"3"}}, "1 3"},
	} {
		if got, _ := c.lines.chosen(t, has(c.places, c.owners)); strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestChooseReadsNoMore: lines of agents without a place, and of users about whom too much is asked already, are not read.
func TestChooseReadsNoMore(t *testing.T) {
	t.Parallel()
	r := has(2, nil)
	r.agents["full"], r.asking[ownerOf("acme", "bob")] = 2, 2
	got, read := waiting{"full/ann": {"1"}, "a/bob": {"2"}, "a/ann": {"3"}}.chosen(t, r)
	if !slices.Equal(got, []string{"3"}) || !slices.Equal(read, []string{"a/ann"}) {
		t.Errorf("%v of %v", got, read)
	}
	gone := errors.New("gone")
	_, err := has(1, nil).choose([]store.TaskLine{{AgentID: "a"}}, func(store.TaskLine, int) ([]store.Task, error) { return nil, gone })
	if !errors.Is(err, gone) {
		t.Errorf("an error of the store is %v", err)
	}
}

// anything are lines of so many agents at most, chosen by chance.
func anything(rnd *rand.Rand, agents int) waiting {
	lines, last := waiting{}, 0
	for a := range 1 + rnd.IntN(agents) {
		for u := range 1 + rnd.IntN(4) {
			name := fmt.Sprintf("agent%d/user%d", a, u)
			for range 1 + rnd.IntN(6) {
				last++
				lines[name] = append(lines[name], fmt.Sprintf("%03d", last))
			}
		}
	}
	return lines
}

// taken is how many of a line were picked. They have to be those at its front.
func taken(t *testing.T, line, picked []string) (n int) {
	t.Helper()
	for n < len(line) && slices.Contains(picked, line[n]) {
		n++
	}
	if slices.ContainsFunc(line[n:], func(id string) bool { return slices.Contains(picked, id) }) {
		t.Fatalf("%v is not taken from its front: %v", line, picked)
	}
	return n
}

// TestChooseFills: whatever waits, no agent gets more than its places, and none is left empty while something waits for it.
func TestChooseFills(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		lines, r := anything(rnd, 3), has(1+rnd.IntN(8), nil)
		picked, _ := lines.chosen(t, r)
		for name, line := range lines {
			agent, _, _ := strings.Cut(name, "/")
			left := len(line) - taken(t, line, picked)
			if has := r.agents[agent]; has > r.perAgent || left > 0 && has < r.perAgent {
				t.Fatalf("%s has %d of %d places, and %d wait for it: %v", agent, has, r.perAgent, left, lines)
			}
		}
	}
}

// TestChooseIsFair: no user from whom something was picked has two more under way at the end than one who still waits.
func TestChooseIsFair(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		lines, r := anything(rnd, 1), has(1+rnd.IntN(8), map[string]int{"user0": rnd.IntN(4), "user1": rnd.IntN(4)})
		picked, _ := lines.chosen(t, r)
		least, most := 1000, 0
		for name, line := range lines {
			_, user, _ := strings.Cut(name, "/")
			n, has := taken(t, line, picked), r.owners[ownerOf("acme", user)]
			if n > 0 {
				most = max(most, has)
			}
			if n < len(line) {
				least = min(least, has)
			}
		}
		if most > least+1 {
			t.Fatalf("one has %d under way, and one with %d waits: %v of %v", most, least, picked, lines)
		}
	}
}
