package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
)

// SteerWait is how long a Control waits for the person it has to be approved by. Its request stays open meanwhile, and
// what is approved later is not done: who asked for it may have gone on otherwise.
const SteerWait = 2 * time.Minute

// permissive are the words by which agents name modes in which they ask nobody, or hardly ever, as in "bypassPermissions",
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

// MaySteer returns nil when the policy, or a person that it wants asked, lets who asks change how the agent of the Session
// works. It waits for that person for SteerWait at most. Its error is a *ControlError, or ctx's.
func (s *Sessions) MaySteer(ctx context.Context, who store.Principal, session store.Session, steering Steering) error {
	rules := policy.Default
	if s.cfg.Policy != nil {
		rules = s.cfg.Policy.Current
	}
	call := steering.call(session, who)
	switch v := rules().Decide(call, nil, time.Now()); v.Action {
	case policy.Allow:
		return nil
	case policy.Block:
		return &ControlError{Code: inbox.PolicyBlocks, Message: "The policy blocks this: " + v.Reason}
	default:
		return s.askToSteer(ctx, session, call, v)
	}
}

// askToSteer asks in the inbox and waits. The Question belongs to the thread's last Turn, over or not; no Agent waits for it.
func (s *Sessions) askToSteer(ctx context.Context, session store.Session, call policy.Call, v policy.Verdict) error {
	run, err := s.cfg.Store.LastRun(ctx, store.System(), session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return &ControlError{Code: ControlNoAgent, Message: "This thread has no agent running."}
	}
	if err != nil {
		return err
	}
	row, approval := steerRows(s.cfg.Hash, session, run.TurnID, call, v)
	changed, stop := s.cfg.Bell.Overhear(session.ID)
	defer stop()
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.System(), session.ID); err != nil {
			return err
		}
		if err := errors.Join(tx.InsertToolCall(ctx, row), tx.InsertApproval(ctx, approval), tx.InsertRecord(ctx, trace.ApprovalRecord(approval))); err != nil {
			return err
		}
		return s.cfg.Notices.Insert(ctx, tx, inbox.Question{Call: row, Approval: approval}, session)
	})
	if err != nil {
		return err
	}
	s.deadlines.Arm(row.ID, time.Until(row.ExpiresAt))
	s.cfg.Bell.Ring(session.ID)
	s.cfg.Notices.Kept()
	return s.steerDecided(ctx, row.ID, changed)
}

func steerRows(hash redact.Hasher, session store.Session, turnID string, call policy.Call, v policy.Verdict) (store.ToolCall, store.Approval) {
	now := time.Now()
	row := store.ToolCall{ // as that of a call whose outcome nobody knows: it outlives its Turn, and no Agent hears of it
		ID: newID(), SessionID: session.ID, TurnID: turnID, Name: call.Tool, Kind: store.KindQuestion, Status: store.ToolWaitingApproval,
		UpstreamID: inbox.SteerPrefix + call.Tool, Args: call.Args, ArgsSHA256: hash.Sum(call.Args), CreatedAt: now, ExpiresAt: now.Add(SteerWait),
	}
	approval := store.Approval{
		ID: row.ID, SessionID: session.ID, TurnID: turnID, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: call.Tool,
		ToolKind: "switch_mode", Title: plainTitle("Let the agent act more freely: " + call.Tool + " " + string(bytes.TrimSpace(call.Args))),
		Args: call.Args, ArgsSHA256: row.ArgsSHA256, Options: mustJSON(inbox.DefaultOptions()), Risk: string(v.Risk), CreatedAt: now, ExpiresAt: row.ExpiresAt,
	}
	v.MayEdit = false
	inbox.SetTerms(&approval, v.Terms, session.User)
	return row, approval
}

// steerAgain is how often the Question is read although nobody rang: a ring of another replica may be lost.
const steerAgain = 2 * time.Second

// steerDecided waits for the decision. When who asked goes away, the Question is taken back: nobody would act on a yes.
func (s *Sessions) steerDecided(ctx context.Context, id string, changed <-chan struct{}) error {
	tick := time.NewTicker(steerAgain)
	defer tick.Stop()
	for {
		a, err := s.cfg.Store.Approval(ctx, store.System(), id)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && a.Status == store.ApprovalApproved:
			return nil
		case err == nil && a.Status != store.ApprovalPending:
			return &ControlError{Code: ControlRejected, Message: "It had to be approved, and was not: " + strings.ToLower(string(a.Status)) + "."}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			s.takeBackSteering(context.WithoutCancel(ctx), id)
			return ctx.Err()
		}
	}
}

// takeBackWait bounds how long a request that has ended is still worked for.
const takeBackWait = 5 * time.Second

func (s *Sessions) takeBackSteering(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, takeBackWait)
	defer cancel()
	_, err := s.settle(ctx, system(), id, func(context.Context, inbox.Question) (inbox.Decision, error) { return inbox.AskerGone(), nil })
	if err != nil {
		s.cfg.Logger.Error("a question about a control is left to expire", slog.String("approval_id", id), slog.Any("error", err))
	}
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
