// This file shows changes that an agent made to its calls after streaming them.

package tdesign

import (
	"encoding/json"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/jsonequal"
)

// amend corrects the arguments on the cards that show them. TDesign merges an object into the one that it has, and appends
// any other text. Other changes of arguments appear only after a reload. So do changed texts and names, for which TDesign has
// no event.
func (cs *calls) amend(out *frames, value json.RawMessage) {
	var a agui.Amendment
	if json.Unmarshal(value, &a) != nil || a.ToolCalls == nil {
		return
	}
	for _, now := range *a.ToolCalls {
		c, args := cs.byID[now.ID], now.Function.Arguments
		if c == nil || c.name == PermissionTool || jsonequal.Texts(c.shown, []byte(args)) {
			continue
		}
		rest, more := strings.CutPrefix(args, string(c.shown))
		switch {
		case more:
			args = rest
		case !isObject(c.shown) || !isObject([]byte(args)):
			continue
		}
		c.shown, c.complete = []byte(now.Function.Arguments), true
		out.send(&agui.ToolCallArgs{ToolCallID: now.ID, Delta: args})
		out.send(&agui.ToolCallEnd{ToolCallID: now.ID})
	}
}

func isObject(text []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(text, &object) == nil && object != nil
}
