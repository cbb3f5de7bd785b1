package bridge

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/policy"
	"aqueduct/store"
)

// SteerWait is how long a Control waits for the person it has to be approved by. Its request stays open meanwhile, and
// what is approved later is not done: who asked for it may have gone on otherwise.
const SteerWait = 2 * time.Minute

// permissive are the words by which agents name modes in which they ask no person, or hardly ever, as in "bypassPermissions",
// "yolo", "auto_edit" and "Full access". Without a rule a person is asked before such a mode is set.
var permissive = []string{"bypass", "yolo", "auto", "full"}

// Steering is a Control that changes how freely an agent acts.
type Steering struct {
	Control Control
	// Names are what people know the value and its option by, as the agent offers them.
	Names []string
}

// call is the Control as the policy judges it: a tool of ours with the mode as its argument.
func (s Steering) call(session store.Session, who store.Principal) policy.Call {
	args := map[string]any{"mode": s.Control.Value}
	if s.Control.Action == ControlSetOption {
		args = map[string]any{"config_id": s.Control.Option, "value": s.Control.Value}
	}
	if len(s.Names) > 0 {
		args["names"] = s.Names
	}
	risk := policy.Low
	for _, name := range append([]string{s.Control.Option, string(s.Control.Value)}, s.Names...) {
		for _, word := range permissive {
			if strings.Contains(strings.ToLower(name), word) {
				risk = policy.High
			}
		}
	}
	return policy.Call{
		AgentID: session.AgentID, Session: session.ID, Tool: string(s.Control.Action), Args: mustJSON(args), Risk: risk, By: policy.Principal(who),
	}
}

func steerRows(hash redact.Hasher, session store.Session, turnID string, call policy.Call, v policy.Verdict) (store.ToolCall, store.Approval) {
	now := time.Now()
	row := store.ToolCall{ // as that of a call whose outcome is unknown: it outlives its Turn, and is delivered to no Agent
		ID: newID(), SessionID: session.ID, TurnID: turnID, Name: call.Tool, Kind: store.KindQuestion, Status: store.ToolWaitingApproval,
		UpstreamID: approval.SteerPrefix + call.Tool, Args: call.Args, ArgsSHA256: hash.Sum(call.Args), CreatedAt: now, ExpiresAt: now.Add(SteerWait),
	}
	asked := store.Approval{
		ID: row.ID, SessionID: session.ID, TurnID: turnID, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: call.Tool,
		ToolKind: "switch_mode", Title: approval.PlainTitle("Let the agent act more freely: " + call.Tool + " " + string(bytes.TrimSpace(call.Args))),
		Args: call.Args, ArgsSHA256: row.ArgsSHA256, Options: mustJSON(approval.DefaultOptions()), Risk: string(v.Risk), CreatedAt: now, ExpiresAt: row.ExpiresAt,
	}
	// The arguments are what was asked for by a person: with others it would be another change.
	v.MayEdit = nil
	approval.SetTerms(&asked, v.Terms, session.User)
	return row, asked
}

// NamesOf are the names by which a Session's agent offers a value: of a mode, or of an option and its value. What it
// offers is in the Session's state under /acp.
func (s Steering) NamesOf(modes, options json.RawMessage) []string {
	type named struct{ ID, Value, Name string }
	var offered struct{ AvailableModes []named }
	var list []struct {
		ID, Name, Category string
		Options            []named
	}
	_ = json.Unmarshal(modes, &offered) // of another form they name nothing
	_ = json.Unmarshal(options, &list)
	value := ""
	_ = json.Unmarshal(s.Control.Value, &value) // a boolean has no name
	var names []string
	if s.Control.Action == ControlSetMode {
		for _, m := range offered.AvailableModes {
			if m.ID == value && m.Name != "" {
				names = append(names, m.Name)
			}
		}
		return names
	}
	for _, o := range list {
		if o.ID != s.Control.Option {
			continue
		}
		names = append(names, o.Name)
		for _, v := range o.Options {
			if v.Value == value && v.Name != "" {
				names = append(names, v.Name)
			}
		}
	}
	return names
}
