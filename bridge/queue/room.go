// This file chooses which Tasks are begun next. It is pure: counts and lines in, Tasks out, so that fairness can be
// tried without a store.

package queue

import (
	"cmp"
	"maps"
	"slices"

	"aqueduct/store"
)

// room is what is under way, and by whom: Tasks per agent, and per user (ownerOf) those at work and those that wait
// for a person. A Turn that waits for a person holds no place: the agent does nothing for it. But a user who has many
// of those gets no more, because further questions would be refused, and end their Turns.
type room struct {
	perAgent, askingPerUser int
	agents, owners, asking  map[string]int
}

// askingShare: at a fourth of the questions that a user may have open the queue begins no more. A Turn may ask more than one, and
// those that are at work then may ask too.
const askingShare = 4

// ownerOf names a user among all tenants. Neither part holds a NUL.
func ownerOf(tenant, user string) string { return tenant + "\x00" + user }

// waitingLine is a line and the first of its Tasks that could be begun.
type waitingLine struct {
	store.TaskLine
	tasks []store.Task
	read  bool
}

// choose picks what there is room for: of the user who has least under way, then of the one who waits the longest, and of that
// user's Tasks by priority and then by age. One user's ten thousand Tasks so delay another's first by one, whatever their
// priorities. next reads a line; the lines of agents without room are not read.
func (r room) choose(lines []store.TaskLine, next func(line store.TaskLine, most int) ([]store.Task, error)) (chosen []store.Task, err error) {
	perAgent := make(map[string][]*waitingLine)
	for _, line := range lines {
		if r.agents[line.AgentID] < r.perAgent && r.asking[ownerOf(line.Tenant, line.User)] < r.askingPerUser {
			perAgent[line.AgentID] = append(perAgent[line.AgentID], &waitingLine{TaskLine: line})
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(perAgent)) {
		more, err := r.chooseOf(agent, perAgent[agent], next)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, more...)
	}
	return chosen, nil
}

// chooseOf is choose for one agent.
func (r room) chooseOf(agent string, lines []*waitingLine, next func(line store.TaskLine, most int) ([]store.Task, error)) (chosen []store.Task, err error) {
	better := func(a, b *waitingLine) int {
		return cmp.Or(cmp.Compare(r.owners[ownerOf(a.Tenant, a.User)], r.owners[ownerOf(b.Tenant, b.User)]), cmp.Compare(a.Oldest, b.Oldest))
	}
	for r.agents[agent] < r.perAgent && len(lines) > 0 {
		best := slices.MinFunc(lines, better)
		if !best.read {
			if best.tasks, err = next(best.TaskLine, r.perAgent-r.agents[agent]); err != nil {
				return nil, err
			}
			best.read = true
		}
		if len(best.tasks) == 0 {
			lines = slices.DeleteFunc(lines, func(l *waitingLine) bool { return l == best })
			continue
		}
		chosen, best.tasks = append(chosen, best.tasks[0]), best.tasks[1:]
		r.agents[agent]++
		r.owners[ownerOf(best.Tenant, best.User)]++
	}
	return chosen, nil
}
