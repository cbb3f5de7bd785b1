package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/notify"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// Webhook is a channel that says what it says by signed POSTs, and is answered by others.
type Webhook struct {
	ID       string // stable: what is still to be told names it
	Tenant   string // whose users it speaks for
	Secret   notify.Secret
	Callback string // where its messages go
}

// Webhooks are the channels of POST /v1/ingress.
type Webhooks []Webhook

// minHookSecret keeps out what can be found by trying.
const minHookSecret = 16

func (hooks Webhooks) check() error {
	seen := make(map[string]bool)
	for _, w := range hooks {
		if !bridge.ValidName(w.ID) || seen[w.ID] || w.Tenant == "" || len(w.Secret) < minHookSecret || w.Callback == "" {
			return fmt.Errorf("server: channel %q needs an id of its own, a tenant, a secret of at least %d characters and a callback", w.ID, minHookSecret)
		}
		seen[w.ID] = true
	}
	return nil
}

func (hooks Webhooks) named(id string) (Webhook, bool) {
	for _, w := range hooks {
		if w.ID == id {
			return w, true
		}
	}
	return Webhook{}, false
}

// OutboxIngress is the outbox's kind of rows that a channel is to be told.
const OutboxIngress = "ingress"

// Letter makes the delivery of a row of OutboxIngress: a notify.Address.
func (hooks Webhooks) Letter(i store.OutboxItem) (notify.Letter, error) {
	w, ok := hooks.named(i.Target)
	if !ok {
		return notify.Letter{}, errors.New("server: no such channel any more")
	}
	var of struct {
		RunID string `json:"run_id"`
	}
	_ = json.Unmarshal(i.Payload, &of) // of our own writing
	return notify.Letter{URL: w.Callback, Secret: w.Secret, Body: i.Payload, TurnID: of.RunID}, nil
}

// ingressHook is POST /v1/ingress: the messages of the channel, one a request, signed. What
// it leads to goes to the channel's callback by way of the outbox.
type ingressHook struct {
	*ingress
	hooks   Webhooks
	courier *courier
}

func newIngressHook(h *ingress, hooks Webhooks) (*ingressHook, error) {
	c := &courier{h: h, wake: make(chan struct{}, 1), known: make(map[string]*carried)}
	return &ingressHook{ingress: h, hooks: hooks, courier: c}, hooks.check()
}

// Carry has channels with callbacks told what they are to hear, by way of the outbox, until
// ctx ends. Whoever sends the outbox's rows of OutboxIngress finds their Letters by
// Webhooks.Letter.
func (s *Server) Carry(ctx context.Context) error {
	if len(s.hook.hooks) > 0 {
		s.hook.courier.run(ctx)
	}
	<-ctx.Done()
	return nil
}

func (h *ingressHook) mount(to *routes) {
	// The signature says who calls.
	to.open(http.MethodPost, "/v1/ingress", h.post)
}

const (
	headerChannel = "X-Aqueduct-Channel"
	// signedFor is how old, or how early, a signature may be.
	signedFor = 5 * time.Minute
)

// hookFrame is what every such message has besides. A request_id lets it come twice: the
// second has no effect.
type hookFrame struct {
	UserID    string `json:"user_id" validate:"required,max=128"`
	RequestID string `json:"request_id" validate:"required"`
}

type hookJSON struct {
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id,omitempty"`
	RunID     string `json:"run_id"`
}

func (h *ingressHook) post(c echo.Context) error {
	r := c.Request()
	hook, ok := h.hooks.named(r.Header.Get(headerChannel))
	signature := r.Header.Get(notify.HeaderSignature)
	if !ok || notify.Timely(signature, time.Now(), signedFor) != nil {
		return h.in.refused(c, refuse(codeUnauthorized, "")) // before the body: these headers are all that is known of its sender
	}
	raw, err := h.in.body(c)
	if err != nil {
		return err
	}
	if notify.Verify(hook.Secret, signature, raw, time.Now(), signedFor) != nil {
		return h.in.refused(c, refuse(codeUnauthorized, ""))
	}
	if err := h.in.known(c); err != nil {
		return err
	}
	frame, err := h.take(r.Context(), hook, raw, r.RemoteAddr)
	var own *channelError
	if errors.As(err, &own) {
		return own.problem()
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, hookJSON{RequestID: frame.RequestID, SessionID: frame.SessionID, RunID: frame.RunID})
}

// problem is a channel's refusal as HTTP has it.
func (e *channelError) problem() *problem {
	switch e.code {
	case codeMessageNotTaken:
		return refuse(bridge.RefusedRunInProgress, e.message)
	case codeForeignUser:
		return refuse(codeUnauthorized, e.message)
	}
	return refuse(codeInvalidBody, e.message)
}

// take does what a message says, and completes its frame with what it is about.
func (h *ingressHook) take(ctx context.Context, hook Webhook, raw []byte, remote string) (frame ingressFrame, err error) {
	var from hookFrame
	if err := h.in.message(raw, &from); err != nil {
		return frame, err
	}
	if err := h.in.message(raw, &frame); err != nil {
		return frame, err
	}
	caller, err := h.actingFor(auth.Caller{Kind: auth.KindChannel, Principal: store.Principal{Tenant: hook.Tenant}, ChannelID: hook.ID}, from.UserID)
	if err != nil {
		return frame, err
	}
	desk := ingressDesk{h: h.ingress, caller: caller, in: caller.Scope(), callback: true, remote: remote}
	carry := cursor{Channel: hook.ID, Tenant: hook.Tenant, User: caller.Principal.User}
	switch frame.Type {
	case "agent_invoke":
		reply, err := desk.chat(ctx, &frame, raw)
		if err != nil {
			return frame, err
		}
		frame.RunID = reply.Run.TurnID
		carry.SessionID, carry.TurnID, carry.Seq = reply.Session.ID, reply.Run.TurnID, seqOf(reply.After+1, -1)
		return frame, h.carry(ctx, carry, reply.Run.TurnID)
	case "tool_result":
		settled, err := desk.toolResult(ctx, &frame, raw)
		return frame, hookSettled(settled, err)
	case "approval_decision":
		settled, err := desk.decision(ctx, &frame, raw)
		return frame, hookSettled(settled, err)
	case "cancel_run":
		_, err := desk.cancelTurn(ctx, &frame)
		return frame, err
	case "replay_run":
		turn, err := desk.turn(ctx, &frame)
		if err == nil {
			err = desk.about(ctx, &frame, turn.SessionID, turn.ID)
		}
		if err != nil {
			return frame, err
		}
		carry.SessionID, carry.TurnID, carry.Replay = turn.SessionID, turn.ID, true
		return frame, h.carry(ctx, carry, hook.ID+" "+carry.User+" "+frame.RequestID)
	}
	return frame, &channelError{codeUnknownType, "There is no message of that type."}
}

// hookSettled tells of a decision that came too late.
func hookSettled(settled inbox.Settled, err error) error {
	var refusal *bridge.Refusal
	if !errors.As(err, &refusal) || refusal.Code != bridge.RefusedDecided {
		return err
	}
	p := refuse(refusal.Code, refusal.Message)
	if settled.Question.ClientTool() {
		out := toolCallOut(settled)
		p.ToolCall = &out
	} else {
		out := approvalOut(settled.Question.Approval, "")
		p.Approval = &out
	}
	return p
}

// carry has a Turn told to the channel, once for each name.
func (h *ingressHook) carry(ctx context.Context, c cursor, name string) error {
	row := c.row(rowName(c.Channel+" "+name), time.Now())
	err := h.store.InTx(ctx, func(tx store.Tx) error { return tx.InsertOutbox(ctx, row) })
	if errors.Is(err, store.ErrConflict) {
		return nil // asked before
	}
	if err == nil {
		h.courier.kick()
	}
	return err
}
