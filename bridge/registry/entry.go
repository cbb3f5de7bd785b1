// This file shows agents. The health of an agent is what this replica found.

package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"aqueduct/bridge/outbound"
	"aqueduct/store"
)

// Status is what this replica knows of an agent.
type Status string

// The states of an agent. A prompt is given to an agent in any of them: it may have come back a moment ago.
const (
	Online  Status = "online"
	Offline Status = "offline" // its proxy is not connected, or its heartbeats ended
	Failing Status = "failing" // its last probe failed; Reason names the cause
	Unknown Status = "unknown" // not probed yet
)

// heartbeatEnds is when an agent that sends heartbeats counts as gone: three of one in 30 s are missing.
const heartbeatEnds = 90 * time.Second

// Entry is an agent of the directory as others see it.
type Entry struct {
	ID, Name, Protocol string
	Source             store.AgentSource
	Capabilities       json.RawMessage
	Status             Status
	Reason             string // why it is Offline or Failing, in words without addresses
	Unconfined         bool   // it could approve for itself
	CheckedAt          time.Time
	LastHeartbeatAt    time.Time
	RegisteredAt       time.Time
	// Endpoint and Owner are for those who may change the entry; "" for others: an agent that knows another's address could
	// call it past this server.
	Endpoint, Owner string
}

// Entries lists the agents that the users of the caller's tenant may talk to, by id, and the id that the next page begins
// after; "" at the end.
func (r *Registry) Entries(ctx context.Context, who store.Principal, page store.Page) (list []Entry, next string, err error) {
	page.After = store.AfterAgent(page.After)
	rows, err := r.cfg.Store.Agents(ctx, store.As(who), page)
	for _, row := range rows {
		// Rows of one id follow one another: that of everybody's agent goes before the tenant's own.
		if e := r.entry(who, row); len(list) == 0 || list[len(list)-1].ID != e.ID {
			list = append(list, e)
		}
	}
	if len(rows) == page.Size() {
		next = store.AgentID(rows[len(rows)-1].ID)
	}
	return list, next, err
}

// Entry is one of them, or store.ErrNotFound.
func (r *Registry) Entry(ctx context.Context, who store.Principal, id string) (Entry, error) {
	row, err := find(ctx, r.cfg.Store, who, id)
	return r.entry(who, row), err
}

// entry joins a row with what this replica knows of the agent. Two replicas may show two states of one agent for as long as
// one of them cannot reach it, which is the truth: each answers for the prompts that it would send.
func (r *Registry) entry(who store.Principal, row store.Agent) Entry {
	e := Entry{
		ID: store.AgentID(row.ID), Name: cmp.Or(row.Name, store.AgentID(row.ID)), Protocol: row.Protocol, Source: row.Source, Capabilities: row.Capabilities,
		LastHeartbeatAt: row.LastHeartbeatAt, RegisteredAt: row.RegisteredAt,
		Unconfined: r.cfg.Directory.Unconfined(row.ID),
	}
	if mayManage(who, row) {
		e.Endpoint, e.Owner = row.Endpoint, row.Owner
	}
	e.Status, e.Reason, e.CheckedAt = r.status(row, time.Now())
	return e
}

// status tells what is known of an agent. A heartbeat that is missing counts only where there ever was a second one: most
// agents are probed and send none.
func (r *Registry) status(row store.Agent, now time.Time) (s Status, reason string, checked time.Time) {
	available, probe := r.cfg.Directory.Health(row.ID)
	silent := now.Sub(row.LastHeartbeatAt)
	switch {
	case !available:
		return Offline, "", probe.At
	case probe.Err != nil:
		return Failing, why(probe.Err), probe.At
	case row.LastHeartbeatAt.After(row.UpdatedAt) && silent > heartbeatEnds:
		return Offline, fmt.Sprintf("no heartbeat for %d s", int(silent.Seconds())), probe.At
	case row.Protocol != store.AgentACP && probe.At.IsZero():
		return Unknown, "", probe.At
	}
	return Online, "", probe.At
}

// why is a failed probe in words that name no address. The error itself may hold what a name resolved to, and everybody in
// the tenant reads the directory: by registering names and reading the reasons one could map the operator's network.
func why(err error) string {
	var refused *outbound.Refused
	var status interface{ HTTPStatus() int }
	var timeout net.Error
	switch {
	case errors.As(err, &refused):
		return "its address may not be called: " + outbound.Cause(err)
	case errors.As(err, &status):
		return fmt.Sprintf("its probe was answered with HTTP %d", status.HTTPStatus())
	case errors.As(err, &timeout) && timeout.Timeout():
		return "its probe was not answered in time"
	}
	return "it cannot be reached"
}
