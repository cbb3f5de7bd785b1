package httpagent

import (
	"strconv"

	"aqueduct/bridge"
)

// callIDs are the ids of the tool calls of one invoke. Some agents number their calls anew in each step, so an id that is used
// again is a new call. Taken for more of the first call, its arguments would be appended to complete JSON.
type callIDs struct {
	turnID   string
	derive   func(upstream string) string
	begun    map[string]int // how often an id was given to a call
	answered map[string]int // how many of those have a result
}

// begin is the id of a tool call that begins.
func (c *callIDs) begin(upstream string) string {
	c.begun[upstream]++
	return c.newest(upstream)
}

// newest is the id of the newest tool call of an upstream's id.
func (c *callIDs) newest(upstream string) string { return c.nth(upstream, c.begun[upstream]) }

// result is the id of the call that a result is of: the oldest of an upstream's id that has none, since parallel calls are
// answered in their order; the newest where all have one.
func (c *callIDs) result(upstream string) string {
	c.answered[upstream] = min(c.answered[upstream]+1, max(1, c.begun[upstream]))
	return c.nth(upstream, c.answered[upstream])
}

func (c *callIDs) nth(upstream string, n int) string {
	if n > 1 {
		return c.derive("call:" + strconv.Itoa(n) + ":" + upstream)
	}
	return bridge.ToolCallID(c.turnID, upstream)
}
