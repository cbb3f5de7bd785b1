// The limits that operators may set, and what each room of the program gets of them. A zero in a room's own struct
// means its default, so flags exist only for what an installation may need to change.

package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/queue"
	"aqueduct/bridge/tools"
	"aqueduct/server/limit"
)

// limitFlags are the spans and sizes that may be set; what each is for stands where it is used. Those against abuse
// are a group of their own.
type limitFlags struct {
	AgentConnectTimeout   time.Duration `default:"10s" help:"How long connecting to an agent may take."`
	AgentFirstByteTimeout time.Duration `default:"300s" help:"How long an agent may take to begin its answer."`
	AgentIdleTimeout      time.Duration `default:"300s" help:"How long an agent may go without a complete frame."`
	AgentTotalTimeout     time.Duration `default:"3600s" help:"How long one call of an agent may take in all."`
	ApprovalTTL           time.Duration `name:"approval-ttl" default:"10m" help:"How long a permission waits when neither the agent nor a rule sets it. Inputs and tools of a page wait until they are answered."`
	OwnerWait             time.Duration `default:"30s" help:"How long a prompt waits for the replica that owns its thread to begin it."`
	ToolTimeout           time.Duration `default:"60s" help:"How long a tool may run when neither it nor its call says."`
	Heartbeat             time.Duration `default:"15s" help:"Silence after which a stream gets a comment."`
	WriteTimeout          time.Duration `default:"10s" help:"How long one write to a client may wait for it."`
	BodyBytes             int64         `default:"4194304" help:"Most bytes of a request's body."`
	EventBytes            eventBytes    `default:"1048576" help:"Most bytes of one event."`
	Abuse                 abuseFlags    `embed:""`
}

// eventBytes is the size of one event.
type eventBytes int

// minEventBytes leaves room for the members beside an event's text, and for a text of which every byte is escaped.
const minEventBytes = 16 << 10

// Validate implements kong's check of a flag.
func (n eventBytes) Validate() error {
	if n < minEventBytes {
		return fmt.Errorf("must be %d or more", minEventBytes)
	}
	return nil
}

// knownPeer counts the connections of proxies with a good token among those of known callers. The edge counts
// connections by whether a good credential was seen; the gateway checks its credentials by itself and knows nothing
// of that count.
func knownPeer(check func(*http.Request) (acpgateway.Identity, error)) func(*http.Request) (acpgateway.Identity, error) {
	return func(r *http.Request) (acpgateway.Identity, error) {
		who, err := check(r)
		if err == nil && !limit.Authenticated(r.Context()) {
			err = errors.New("too many connections")
		}
		return who, err
	}
}

// agent are the limits on one call of an HTTP agent.
func (l limitFlags) agent() httpagent.Limits {
	return httpagent.Limits{
		Connect: l.AgentConnectTimeout, FirstByte: l.AgentFirstByteTimeout, Idle: l.AgentIdleTimeout, Total: l.AgentTotalTimeout,
	}
}

// bridge are the limits of the engine: of Turns, questions and what is kept of them.
func (l limitFlags) bridge() bridge.Limits {
	a := l.Abuse
	// What has no flag (Quiet, BusyWait, LeaveGrace and others) stays zero, which is the engine's default.
	return bridge.Limits{
		ApprovalTTL: l.ApprovalTTL, EventBytes: int(l.EventBytes), OwnerWait: l.OwnerWait,
		TurnsPerUser: a.MaxTurns, QuestionsPerTurn: a.MaxTurnQuestions, QuestionsPerUser: a.MaxUserQuestions,
		RunBytes: a.MaxRunBytes, ThreadBytes: a.MaxThreadBytes, TenantBytes: a.MaxTenantBytes,
	}
}

// queue are the limits of the queue.
func (l limitFlags) queue() queue.Limits { return queue.Limits{PerAgent: l.Abuse.QueuePerAgent} }

// tools are the limits of tool calls. Questions about them share those of the engine.
func (l limitFlags) tools() tools.Limits {
	return tools.Limits{
		ApprovalTTL: l.ApprovalTTL, Timeout: l.ToolTimeout, QuestionsPerTurn: l.Abuse.MaxTurnQuestions, QuestionsPerUser: l.Abuse.MaxUserQuestions,
	}
}

// server are the limits of the HTTP edge; those that have no flag get their defaults there.
func (l limitFlags) server() limit.Limits {
	a := l.Abuse
	return limit.Limits{
		Body: l.BodyBytes, Heartbeat: l.Heartbeat, WriteTime: l.WriteTimeout,
		Connections: a.MaxConnections, AnonymousConnections: a.MaxAnonymous, Sockets: a.MaxSockets, Bodies: a.MaxBodiesBytes,
		Runs: a.RunRate.Rate, Decisions: a.DecisionRate.Rate, Invokes: a.ToolCallRate.Rate, Failures: a.FailureRate.Rate,
	}
}
