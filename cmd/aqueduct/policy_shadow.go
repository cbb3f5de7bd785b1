package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"aqueduct/policy"
)

// policyShadowCmd decides again what was decided, with another file.
type policyShadowCmd struct {
	File  string `arg:"" help:"The policy file to try."`
	Calls string `required:"" help:"Payloads of policy_decision records, one JSON object a line." placeholder:"FILE"`
}

// Run implements the command.
func (c *policyShadowCmd) Run(to output) error {
	p, err := readPolicy(c.File)
	if err != nil {
		return err
	}
	f, err := os.Open(c.Calls)
	if err != nil {
		return err
	}
	defer f.Close()
	s := shadow{policy: p, out: to.out, changes: map[string]int{}}
	if err := s.run(decisionLines{f}); err != nil {
		return fmt.Errorf("%s: %w", c.Calls, err)
	}
	s.sum()
	return nil
}

// decisions are what was decided, wherever it is kept.
type decisions interface {
	all() iter.Seq2[policy.Decision, error]
}

// decisionLines are decisions as JSON lines.
type decisionLines struct{ r io.Reader }

// longestDecision bounds a line: a Decision holds arguments of 64 KiB at most, which may
// be written in six times that.
const longestDecision = 1 << 20

func (d decisionLines) all() iter.Seq2[policy.Decision, error] {
	return func(yield func(policy.Decision, error) bool) {
		lines := bufio.NewScanner(d.r)
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
	unknown int // the arguments were not kept
	changes map[string]int
}

func (s *shadow) run(kept decisions) error {
	needs := s.policy.LooksAtArgs()
	for d, err := range kept.all() {
		if err != nil {
			return err
		}
		call, known := d.Call()
		if needs && !known {
			s.unknown++
			continue
		}
		s.compare(d, s.policy.Decide(call, nil, time.Time{}))
	}
	return nil
}

// compare prints a change. What a Grant allowed would still be: grants answer questions.
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
