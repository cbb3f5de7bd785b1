package bridge

import (
	"reflect"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge/redact"
)

// TestS60EveryPieceIsMasked: a secret that is cut between two events is masked in events of each type with a member that comes
// in pieces. The tags of the types say which these are.
func TestS60EveryPieceIsMasked(t *testing.T) {
	t.Parallel()
	const begin, rest = "ghp_16C7e42F292c", "6912E7710c838347Ae178B4a"
	walked := 0
	for _, of := range agui.Types() {
		for f := range reflect.TypeOf(agui.Blank(of)).Elem().Fields() {
			if !strings.HasSuffix(f.Tag.Get("agui"), ",piece") {
				continue
			}
			walked++
			var m masking
			m.filter = redact.Forms()
			piece := func(text string) agui.Event {
				ev := agui.Blank(of)
				v := reflect.ValueOf(ev).Elem()
				for _, id := range []string{"MessageID", "ToolCallID"} {
					if member := v.FieldByName(id); member.IsValid() {
						member.SetString("m")
					}
				}
				v.FieldByIndex(f.Index).SetString(text)
				return ev
			}
			var text strings.Builder
			for _, ev := range append(append(m.on(piece(begin)), m.on(piece(rest))...), m.rest()...) {
				if delta := reflect.ValueOf(ev).Elem().FieldByName(f.Name); delta.IsValid() {
					text.WriteString(delta.String())
				}
			}
			if strings.Contains(text.String(), begin[4:]) || !strings.Contains(text.String(), redact.Mask) {
				t.Errorf("%s.%s in two pieces is %q", of, f.Name, text.String())
			}
		}
	}
	if walked == 0 {
		t.Error("no type has a member that comes in pieces")
	}
}
