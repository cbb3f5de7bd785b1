package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/internal/jsonequal"
)

// conformanceCase is a stream and what AG-UI 1.0 has a consumer make of it. The same file is
// read by test/judges/conformance.test.mjs, which asks the official client.
type conformanceCase struct {
	Name    string
	Stream  []json.RawMessage
	Verdict string // taken or refused
	Rule    string // of the Grammar, or the path of what is malformed
	Quiet   bool   // nothing about it is odd: the strict reader of our tests takes it too
	Admit   bool   // it is what a producer is made legal from

	Messages []json.RawMessage // each holds at least these members
	State    json.RawMessage
	Error    string
	Request  json.RawMessage // what a client sends for it
}

// TestConformance are the cases of the protocol's repository, restated.
func TestConformance(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []conformanceCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	agree := 0
	for _, c := range cases {
		if t.Run(c.Name, func(t *testing.T) { c.judge(t) }) {
			agree++
		}
	}
	t.Logf("%d of %d cases agree", agree, len(cases))
	if len(cases) < 76 {
		t.Errorf("only %d cases", len(cases))
	}
}

func (c *conformanceCase) judge(t *testing.T) {
	r := newConsumer()
	err := r.readAll(c.Stream, c.Admit)
	if (err == nil) != (c.Verdict == "taken") {
		t.Fatalf("%v, should be %s", err, c.Verdict)
	}
	if err != nil {
		c.judgeRefusal(t, err)
		return
	}
	c.judgeMessages(t, r.fold.Messages())
	if c.State != nil && !jsonequal.Texts(r.state.JSON(), c.State) {
		t.Errorf("state %s, want %s", r.state.JSON(), c.State)
	}
	if c.Error != r.failed {
		t.Errorf("the error told is %q, want %q", r.failed, c.Error)
	}
	if c.Request != nil {
		c.judgeRequest(t)
	}
	if c.Quiet {
		c.readStrictly(t)
	}
}

func (c *conformanceCase) judgeRefusal(t *testing.T, err error) {
	var order *agui.GrammarError
	var shape *agui.InputError
	switch {
	case errors.As(err, &order) && string(order.Rule) == c.Rule:
	case errors.As(err, &shape) && shape.Path == c.Rule:
	default:
		t.Errorf("refused with %v, want %s", err, c.Rule)
	}
}

func (c *conformanceCase) judgeMessages(t *testing.T, got []agui.Message) {
	if c.Messages == nil {
		return
	}
	if len(got) != len(c.Messages) {
		t.Fatalf("%s", messagesJSON(got))
	}
	for i := range got {
		if text := got[i].AppendJSON(nil); !holds(text, c.Messages[i]) {
			t.Errorf("got  %s\nwant %s", text, c.Messages[i])
		}
	}
}

// judgeRequest: what a client sends is taken.
func (c *conformanceCase) judgeRequest(t *testing.T) {
	var request map[string]json.RawMessage
	if err := json.Unmarshal(c.Request, &request); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"threadId": `"harbour"`, "runId": `"dawn"`, "messages": `[]`} {
		if request[name] == nil {
			request[name] = json.RawMessage(value)
		}
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	in, err := agui.DecodeInput(body)
	if err != nil {
		t.Fatal(err)
	}
	if again := in.AppendJSON(nil); !holds(again, c.Request) {
		t.Errorf("%s is read as %s", c.Request, again)
	}
}

func (c *conformanceCase) readStrictly(t *testing.T) {
	r := aguitest.New()
	for _, line := range c.Stream {
		var ordered bytes.Buffer
		ev, err := agui.Decode(line)
		if err != nil || json.Compact(&ordered, line) != nil {
			t.Fatal(err)
		}
		if text := ev.AppendJSON(nil); !jsonequal.Texts(text, line) {
			t.Errorf("%s is read as %s", line, text)
		} else if err := r.Read(text); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// holds reports whether a value has at least what another has: the same elements in lists, and
// in objects the members that are named.
func holds(text, least []byte) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(least, &y) == nil && y != nil {
		if json.Unmarshal(text, &x) != nil {
			return false
		}
		for name, value := range y {
			if x[name] == nil || !holds(x[name], value) {
				return false
			}
		}
		return true
	}
	var xs, ys []json.RawMessage
	if json.Unmarshal(least, &ys) == nil && ys != nil {
		if json.Unmarshal(text, &xs) != nil || len(xs) != len(ys) {
			return false
		}
		for i := range ys {
			if !holds(xs[i], ys[i]) {
				return false
			}
		}
		return true
	}
	return jsonequal.Texts(text, least)
}

// consumer reads a stream as AG-UI 1.0 has a consumer read it.
type consumer struct {
	reader, writer agui.Grammar // writer expands chunks
	fold           *agui.Fold
	state          *agui.StateDoc
	failed         string
}

func newConsumer() *consumer {
	return &consumer{fold: agui.NewFold(nil), state: new(agui.StateDoc)}
}

func (r *consumer) readAll(stream []json.RawMessage, admit bool) error {
	for _, line := range stream {
		ev, err := agui.Decode(line)
		var unknown *agui.UnknownTypeError
		if errors.As(err, &unknown) {
			continue
		}
		if err == nil && !admit {
			err = r.reader.Check(ev)
		}
		if err != nil {
			return err
		}
		r.apply(ev)
	}
	return nil
}

func (r *consumer) apply(ev agui.Event) {
	events, err := r.writer.Admit(nil, ev)
	if err != nil { // a producer of ours would not write it
		events = []agui.Event{ev}
	}
	for _, ev := range events {
		r.fold.Apply(ev)
	}
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		_ = r.state.Snapshot(e.Snapshot)
	case *agui.StateDelta:
		_ = r.state.Patch(e.Delta) // one that does not apply changes nothing
	case *agui.RunError:
		r.failed = e.Message
	}
}
