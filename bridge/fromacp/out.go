package fromacp

import (
	"bytes"
	"encoding/json"

	"aqueduct/agui"
)

// Out is one thing a translation gives. Exactly one member is set.
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
	Failure    *Failure
}

// Failure is why a prompt failed, in words a user may read.
type Failure struct {
	Code    string
	Message string
}

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
		panic("fromacp: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
