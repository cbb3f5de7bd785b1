package main

import (
	"errors"
	"net/http"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/server"
)

// limitFlags are the spans and sizes that may be set; what each is for stands where it is
// used.
type limitFlags struct {
	AgentConnectTimeout   time.Duration `default:"10s" help:"How long connecting to an agent may take."`
	AgentFirstByteTimeout time.Duration `default:"300s" help:"How long an agent may take to begin its answer."`
	AgentIdleTimeout      time.Duration `default:"300s" help:"How long an agent may go without a complete frame."`
	AgentTotalTimeout     time.Duration `default:"3600s" help:"How long one call of an agent may take in all."`
	ApprovalTTL           time.Duration `name:"approval-ttl" default:"10m" help:"How long a question waits when the agent does not say."`
	OwnerWait             time.Duration `default:"30s" help:"How long a prompt waits for the replica that owns its thread to begin it."`
	ToolTimeout           time.Duration `default:"60s" help:"How long a tool may run when neither it nor its call says."`
	Heartbeat             time.Duration `default:"15s" help:"Silence after which a stream gets a comment."`
	WriteTimeout          time.Duration `default:"10s" help:"How long one write to a client may wait for it."`
	BodyBytes             int64         `default:"4194304" help:"Most bytes of a request's body."`
	EventBytes            int           `default:"1048576" help:"Most bytes of one event."`
}

// knownPeer counts the connections of proxies with a good token among those of known callers.
func knownPeer(check func(*http.Request) (acpgateway.Identity, error)) func(*http.Request) (acpgateway.Identity, error) {
	return func(r *http.Request) (acpgateway.Identity, error) {
		who, err := check(r)
		if err == nil && !server.Authenticated(r.Context()) {
			err = errors.New("too many connections")
		}
		return who, err
	}
}

func (l limitFlags) agent() httpagent.Limits {
	return httpagent.Limits{
		Connect: l.AgentConnectTimeout, FirstByte: l.AgentFirstByteTimeout, Idle: l.AgentIdleTimeout, Total: l.AgentTotalTimeout,
	}
}

func (l limitFlags) bridge() bridge.Limits {
	return bridge.Limits{ApprovalTTL: l.ApprovalTTL, EventBytes: l.EventBytes, OwnerWait: l.OwnerWait}
}

func (l limitFlags) server() server.Limits {
	return server.Limits{Body: l.BodyBytes, Heartbeat: l.Heartbeat, WriteTime: l.WriteTimeout}
}
