// aqueduct policy shadow: what another policy file would have decided about calls of the past. It only reads.

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
)

// policyShadowCmd decides again what was decided, with another file.
type policyShadowCmd struct {
	File  string     `arg:"" help:"The policy file to try."`
	Files stateFlags `embed:""`
	Calls string     `help:"Instead of the database's: payloads of policy_decision records, one JSON object a line." placeholder:"FILE"`
}

// Run implements the command. It prints each decision that would differ, and counts at the end.
func (c *policyShadowCmd) Run(ctx context.Context, to output) error {
	p, err := readPolicy(c.File)
	if err != nil {
		return err
	}
	kept, source, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer source.Close() // it was only read
	s := shadow{policy: p, out: to.out, changes: map[string]int{}}
	if err := s.run(kept); err != nil {
		return err
	}
	s.sum()
	return nil
}

// decisions are what was decided, wherever it is kept.
type decisions = iter.Seq2[policy.Decision, error]

// open is where the decisions come from: a file of JSON lines, or the records of the database.
func (c *policyShadowCmd) open(ctx context.Context) (decisions, io.Closer, error) {
	if c.Calls != "" {
		f, err := os.Open(c.Calls)
		return decisionLines(f), f, err
	}
	db, err := c.Files.Database.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	return decisionRecords(ctx, db), db, nil
}

// decisionRecords are the decisions that a database holds, oldest first. They are read page by page, so memory does
// not grow with the history.
func decisionRecords(ctx context.Context, r store.RecordReader) decisions {
	return func(yield func(policy.Decision, error) bool) {
		// A server may go on deciding meanwhile: ids grow with time, so what it adds comes in a later page.
		page := store.Page{Limit: store.MaxPageLimit}
		for {
			records, err := r.RecordsOfType(ctx, store.System(), trace.PolicyDecision, page)
			if err != nil {
				yield(policy.Decision{}, err)
				return
			}
			for _, record := range records {
				var d policy.Decision
				err := json.Unmarshal(record.Payload, &d)
				if err != nil {
					err = fmt.Errorf("record %s: %w", record.ID, err)
				}
				if !yield(d, err) {
					return
				}
			}
			if len(records) < page.Limit {
				return
			}
			page.After = records[len(records)-1].ID
		}
	}
}

// longestDecision bounds a line: a Decision holds arguments of 64 KiB at most, which may
// be written in six times that.
const longestDecision = 1 << 20

// decisionLines are decisions as JSON lines.
func decisionLines(r io.Reader) decisions {
	return func(yield func(policy.Decision, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longestDecision)
		for n := 1; lines.Scan(); n++ {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			var one policy.Decision
			err := json.Unmarshal(lines.Bytes(), &one)
			if err != nil {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if !yield(one, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(policy.Decision{}, err)
		}
	}
}

// shadow counts what would change.
type shadow struct {
	policy  *policy.Policy
	out     io.Writer
	same    int
	unknown int            // the arguments were not kept
	changes map[string]int // by "verdict -> verdict"
}

// run compares all of them. A policy that looks at arguments cannot judge decisions whose arguments were not kept.
func (s *shadow) run(kept decisions) error {
	needs := s.policy.LooksAtArgs()
	for d, err := range kept {
		if err != nil {
			return err
		}
		call, known := d.Call()
		if needs && !known {
			s.unknown++
			continue
		}
		// Without Grants, and so without a time that one could have ended at: the files alone are compared.
		s.compare(d, s.policy.Decide(call, nil, time.Time{}))
	}
	return nil
}

// compare prints a change. What a Grant allowed would still be: grants answer questions. So a call that a Grant let
// through counts as before where the other policy asks. Grants themselves are given to neither, since they have changed
// since.
func (s *shadow) compare(d policy.Decision, v policy.Verdict) {
	if d.Verdict == v.Action || d.Grant != "" && v.Action == policy.Ask {
		s.same++
		return
	}
	change := fmt.Sprintf("%s -> %s", d.Verdict, v.Action)
	s.changes[change]++
	fmt.Fprintf(s.out, "%s\t%s\trule %q -> %q\tagent %q user %q\n",
		change, policy.Visible(cmp.Or(d.Tool, d.Kind)+" "+d.Title, 120), d.Rule, v.Rule, d.Agent, d.User)
}

// sum prints the counts, by kind of change.
func (s *shadow) sum() {
	changed := 0
	for _, n := range s.changes {
		changed += n
	}
	fmt.Fprintf(s.out, "%d decisions: %d as before, %d would change, %d cannot be told (arguments not kept)\n",
		s.same+changed+s.unknown, s.same, changed, s.unknown)
	for _, change := range slices.Sorted(maps.Keys(s.changes)) {
		fmt.Fprintf(s.out, "%6d  %s\n", s.changes[change], change)
	}
}
