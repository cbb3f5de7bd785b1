// Limits against abuse: what one user, address, thread or tenant can take at most.

package main

import (
	"fmt"
	"strconv"
	"strings"

	"aqueduct/server/limit"
)

// abuseFlags bound what one caller can take from the others. Their defaults are beyond what a
// person with a thousand parallel agents does; what each is for stands where it is used.
type abuseFlags struct {
	MaxConnections   int      `default:"25000" help:"Most connections of callers with a good credential."`
	MaxAnonymous     int      `default:"2048" help:"Most connections of others; beyond it the oldest is closed. One address has half of it."`
	MaxSockets       int      `default:"1000" help:"Most WebSockets of known callers; one user has a quarter of it."`
	MaxBodiesBytes   int64    `default:"67108864" help:"Most bytes of request bodies that are held at once."`
	QueuePerAgent    int      `default:"8" help:"Most tasks of the queue that one agent works on at a time."`
	MaxTurns         int      `default:"5000" help:"Most turns of one user that are under way at once."`
	MaxTurnQuestions int      `default:"32" help:"Most open questions of one turn."`
	MaxUserQuestions int      `default:"200" help:"Most open questions of one user."`
	MaxRunBytes      int      `default:"67108864" help:"Most bytes of the events of one run."`
	MaxThreadBytes   int64    `default:"1073741824" help:"Most bytes of the events of one thread."`
	MaxTenantBytes   int64    `default:"0" help:"Most bytes of the events of all threads of one tenant; 0 is no limit."`
	RunRate          rateFlag `default:"100:5000" help:"How many runs one user may start, as PER_SECOND:BURST or off."`
	DecisionRate     rateFlag `default:"100:5000" help:"How many decisions one user may make, as PER_SECOND:BURST or off."`
	ToolCallRate     rateFlag `default:"1000:10000" help:"How many tool calls the agents of one user may make, as PER_SECOND:BURST or off."`
	FailureRate      rateFlag `default:"10:1000" help:"How many refused credentials of one address are answered with 401 before it gets 429, as PER_SECOND:BURST or off."`
}

// rateFlag is a token bucket. PER_SECOND is the long run and BURST what may come at once.
type rateFlag struct{ limit.Rate }

// UnmarshalText implements encoding.TextUnmarshaler. off is a negative rate: zero would mean the default.
func (f *rateFlag) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		f.Rate = limit.Rate{PerSecond: -1}
		return nil
	}
	perSecond, burst, _ := strings.Cut(string(text), ":")
	var err error
	if f.PerSecond, err = strconv.ParseFloat(perSecond, 64); err == nil {
		f.Burst, err = strconv.Atoi(burst)
	}
	if err != nil || !(f.PerSecond > 0) || f.Burst < 1 { // ParseFloat takes NaN, which is not more than 0
		return fmt.Errorf("%q is not PER_SECOND:BURST, such as 100:5000, nor off", text)
	}
	return nil
}
