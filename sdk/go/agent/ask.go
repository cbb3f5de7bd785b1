// This file asks people, and brings their answers back. An agent that asked ends its answer and keeps nothing, so
// what it has been answered so far has to travel: the id of each question holds all answers before it (carry),
// Aqueduct gives the id back with the answer, and gather joins them again. A question's id is therefore ID~ANSWERS,
// ANSWERS being deflated JSON in base64.

package agent

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxCarried is the most bytes of earlier answers in the id of a question; a run that asks so much should keep its own notes.
const maxCarried = 64 << 10

// errAsked ends a function that has asked.
var errAsked = errors.New("the agent waits for an answer")

// Option is a choice of a permission. Only its Kind decides what it means: allow_once, allow_always, reject_once or
// reject_always.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Kind  string `json:"kind"`
}

// Permission is the question whether the agent may do something. Without Options it has once, always and no.
type Permission struct {
	Title   string
	Tool    string
	Args    any
	Options []Option
	Risk    string
	Expires time.Duration
}

// Question asks a person for something. Schema is a JSON Schema of the answer.
type Question struct {
	Title   string
	Schema  any
	Expires time.Duration
}

// ask is a frame that asks.
type ask struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind,omitempty"`
	Title     string   `json:"title,omitempty"`
	Tool      string   `json:"tool,omitempty"`
	Name      string   `json:"name,omitempty"`
	Args      any      `json:"args,omitempty"`
	Options   []Option `json:"options,omitempty"`
	Schema    any      `json:"response_schema,omitempty"`
	Risk      string   `json:"risk,omitempty"`
	ExpiresIn float64  `json:"expires_in,omitempty"`
}

// AskPermission asks, under an id of the function's own. The function returns what it gives: that ends the answer, nothing
// stays in memory, and when a person has decided the function is called again, in this process or another, where
// Answer(id) has the decision. Several questions may be asked before it returns.
func (r *Run) AskPermission(id string, p Permission) error {
	if p.Options == nil {
		p.Options = []Option{{"once", "Allow once", "allow_once"}, {"always", "Always allow", "allow_always"}, {"no", "Reject", "reject_once"}}
	}
	if p.Risk == "" {
		p.Risk = "medium"
	}
	return r.ask(id, "ask", ask{Kind: "permission", Title: p.Title, Tool: p.Tool, Args: p.Args, Options: p.Options, Risk: p.Risk, ExpiresIn: p.Expires.Seconds()})
}

// AskQuestion asks a person for something, as AskPermission does for leave.
func (r *Run) AskQuestion(id string, q Question) error {
	return r.ask(id, "ask", ask{Kind: "input", Title: q.Title, Name: "ask_user", Schema: q.Schema, ExpiresIn: q.Expires.Seconds()})
}

// AskClientTool has the frontend run a tool that it declared (ClientTools).
func (r *Run) AskClientTool(id, name string, args any) error {
	return r.ask(id, "call_client_tool", ask{Name: name, Args: args})
}

// ask sends a question and returns errAsked, which the function passes on; any other error is a question that was not
// asked.
func (r *Run) ask(id, frame string, a ask) error {
	if id == "" || strings.Contains(id, "~") {
		return fmt.Errorf("the id of a question must not be empty or hold a ~: %q", id)
	}
	var err error
	if a.ID, err = r.answers.carry(id); err != nil {
		return err
	}
	r.out.write(r.replay.letGo())
	r.Frame(frame, a)
	r.pending = append(r.pending, a.ID)
	return errAsked
}

// Answer is what came of the question that was asked under an id, in any call of this run.
func (r *Run) Answer(id string) (Answer, bool) {
	a, ok := r.answers[id]
	return a, ok
}

// Answer is what came of a question.
type Answer struct {
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// New is whether this call brought it: what follows from it has not been done and written yet.
	New bool `json:"-"`
}

// Cancelled is whether there is no answer: declined, taken back, or too late.
func (a Answer) Cancelled() bool { return a.Status != "resolved" }

// Approved is whether a permission was given. Everything else is no.
func (a Answer) Approved() bool {
	var p struct{ Approved bool }
	return !a.Cancelled() && json.Unmarshal(a.Payload, &p) == nil && p.Approved
}

// Value has what a person entered, or a client tool gave. AG-UI has a tool's result as text, which is JSON in most cases: it
// is decoded from the text where into cannot hold a text, as a struct. A *string, or an *any, gets the text itself.
func (a Answer) Value(into any) error {
	var p map[string]json.RawMessage
	if json.Unmarshal(a.Payload, &p) != nil || len(p) != 1 || p["content"] == nil {
		return json.Unmarshal(a.Payload, into)
	}
	err := json.Unmarshal(p["content"], into)
	var text string
	if err != nil && json.Unmarshal(p["content"], &text) == nil {
		return json.Unmarshal([]byte(text), into)
	}
	return err
}

// answered is an answer as a call brings it. Key is that of a tool call which waited when an earlier call of the agent was
// lost; Repeated marks an answer that the lost call has had.
type answered struct {
	ID       string `json:"id"`
	Key      string `json:"idempotency_key"`
	Repeated bool   `json:"repeated"`
	Answer
}

// answers are all of a run, by the ids of their questions. A call brings the newest; the earlier ones come in the ids
// of their questions, which only Aqueduct keeps and gives back.
//
//	1st call   asks "a"
//	2nd call   gets the answer to "a", asks "b~…", where … is the answer to "a"
//	3rd call   gets the answer to "b~…": both are known
type answers map[string]Answer

// gather joins the answers that a call brings with those that travelled in their ids. Of two under one id the newest
// counts; only the answers of this call are New. calls are the keys of tool calls that waited when an earlier call was lost.
func gather(resume []answered) (all answers, calls []string, err error) {
	all = answers{}
	for _, a := range resume {
		if a.Key != "" {
			calls = append(calls, a.Key)
			continue
		}
		id, carried, more := strings.Cut(a.ID, "~")
		if more {
			earlier, err := unpack(carried)
			if err != nil {
				return nil, nil, fmt.Errorf("the id of an answer is not one of ours: %w", err)
			}
			for key, answer := range earlier {
				if _, newer := all[key]; !newer {
					all[key] = answer
				}
			}
		}
		a.New = !a.Repeated
		all[id] = a.Answer
	}
	return all, calls, nil
}

// carry is the id to ask under: it holds what was answered before.
func (all answers) carry(id string) (string, error) {
	if len(all) == 0 {
		return id, nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(raw); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	carried := base64.RawURLEncoding.EncodeToString(b.Bytes())
	if len(carried) > maxCarried {
		return "", fmt.Errorf("the answers of this run (%s) are too large to be carried on", strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return id + "~" + carried, nil
}

// unpack is the reverse of carry. The bound is on the unpacked text: an id comes with the call, and a few KiB can
// unpack to any size.
func unpack(carried string) (answers, error) {
	raw, err := base64.RawURLEncoding.DecodeString(carried)
	if err != nil {
		return nil, err
	}
	var all answers
	err = json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), 64*maxCarried)).Decode(&all)
	return all, err
}
