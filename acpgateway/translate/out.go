package translate

import (
	"bytes"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/internal/fault"
)

// Out is one thing a translation gives. Exactly one member is set.
// A list of them is what one frame means. Appending to the caller's slice keeps a delta free of allocations.
type Out struct {
	Event     agui.Event
	Question  *Question
	Withdrawn string // the key of a Question the agent no longer asks
	End       *End
}

// End is how a prompt ended.
type End struct {
	StopReason string // the agent's word; "" when it gave none
	Cancelled  bool
	Result     json.RawMessage // for RUN_FINISHED, unless cancelled
	Usage      []agui.TokenUsage
	Failure    *fault.Error
}

// event appends events as Outs.
func event(dst []Out, events ...agui.Event) []Out {
	for _, ev := range events {
		dst = append(dst, Out{Event: ev})
	}
	return dst
}

// marshal encodes values that cannot fail to encode, as they are: a diff is full of <.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("translate: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
