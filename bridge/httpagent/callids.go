package httpagent

import (
	"strconv"

	"aqueduct/bridge"
)

// callIDs maps the ids of the tool calls of one invoke. Some agents number their calls from the start in each step, so an id
// that is used again is a new call. Otherwise its arguments would be appended to the first call's complete JSON.
type callIDs struct {
	turnID   string
	derive   func(upstream string) string
	begun    map[string]int // number of calls that had the id
	answered map[string]int // number of these with a result
}

// begin returns the id for a tool call that begins.
func (c *callIDs) begin(upstream string) string {
	c.begun[upstream]++
	return c.newest(upstream)
}

// newest returns the id of the newest tool call with an upstream id.
func (c *callIDs) newest(upstream string) string { return c.nth(upstream, c.begun[upstream]) }

// result returns the id of the call that a result belongs to: the oldest with the upstream id and without a result, because
// parallel calls are answered in their order. If all have one, it is the newest.
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
