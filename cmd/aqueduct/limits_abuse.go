package main

import (
	"fmt"
	"strconv"
	"strings"

	"aqueduct/bridge"
	"aqueduct/bridge/tools"
	"aqueduct/server"
	"aqueduct/server/brake"
)

// abuseFlags bound what one caller can take from the others. Their defaults are beyond what a
// person with a thousand parallel agents does; what each is for stands where it is used.
type abuseFlags struct {
	MaxConnections   int      `default:"25000" help:"Most connections of callers with a good credential."`
	MaxAnonymous     int      `default:"2048" help:"Most connections of others; beyond it the oldest is closed. One address has half of it."`
	MaxSockets       int      `default:"1000" help:"Most WebSockets of known callers; one user has a quarter of it."`
	MaxBodiesBytes   int64    `default:"67108864" help:"Most bytes of request bodies that are held at once."`
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

// rateFlag is a token bucket.
type rateFlag struct{ brake.Rate }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *rateFlag) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		f.Rate = brake.Rate{PerSecond: -1}
		return nil
	}
	perSecond, burst, _ := strings.Cut(string(text), ":")
	var err error
	if f.PerSecond, err = strconv.ParseFloat(perSecond, 64); err == nil {
		f.Burst, err = strconv.Atoi(burst)
	}
	if err != nil || !(f.PerSecond > 0) || f.Burst < 1 {
		return fmt.Errorf("%q is not PER_SECOND:BURST, such as 100:5000, nor off", text)
	}
	return nil
}

func (a abuseFlags) server(l server.Limits) server.Limits {
	l.Connections, l.AnonymousConnections, l.Sockets, l.Bodies = a.MaxConnections, a.MaxAnonymous, a.MaxSockets, a.MaxBodiesBytes
	l.Runs, l.Decisions, l.Invokes, l.Failures = a.RunRate.Rate, a.DecisionRate.Rate, a.ToolCallRate.Rate, a.FailureRate.Rate
	return l
}

func (a abuseFlags) bridge(l bridge.Limits) bridge.Limits {
	l.TurnsPerUser, l.QuestionsPerTurn, l.QuestionsPerUser = a.MaxTurns, a.MaxTurnQuestions, a.MaxUserQuestions
	l.RunBytes, l.ThreadBytes, l.TenantBytes = a.MaxRunBytes, a.MaxThreadBytes, a.MaxTenantBytes
	return l
}

func (a abuseFlags) tools(l tools.Limits) tools.Limits {
	l.QuestionsPerTurn, l.QuestionsPerUser = a.MaxTurnQuestions, a.MaxUserQuestions
	return l
}
