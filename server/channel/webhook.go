// This file is the channel for programs without a socket: messages come as signed POSTs, and what
// they lead to is delivered to a callback. The signature covers body and time, so that a recorded
// request is good for minutes only; request_id makes a repetition harmless within them.

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/channelfeed"
	"aqueduct/bridge/notify"
	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Webhook is a channel that sends and receives its messages by signed POSTs. They come from the settings of the
// server and do not change while it runs.
type Webhook struct {
	ID       string // stable: rows of the outbox name it
	Tenant   string // whose users it speaks for
	Secret   notify.Secret
	Callback string // where its messages go
}

// Webhooks are the channels of POST /v1/ingress.
type Webhooks []Webhook

// minSecret keeps out what can be found by trying.
const minSecret = 16

// check refuses channels whose rows in the outbox could be taken for another's, and secrets that can
// be guessed.
func (hooks Webhooks) check() error {
	seen := make(map[string]bool)
	for _, w := range hooks {
		if !ids.ValidName(w.ID) || seen[w.ID] || w.Tenant == "" || len(w.Secret) < minSecret || w.Callback == "" {
			return fmt.Errorf("server: channel %q needs an id of its own, a tenant, a secret of at least %d characters and a callback", w.ID, minSecret)
		}
		seen[w.ID] = true
	}
	return nil
}

// named is the channel of an id.
func (hooks Webhooks) named(id string) (Webhook, bool) {
	i := slices.IndexFunc(hooks, func(w Webhook) bool { return w.ID == id })
	if i < 0 {
		return Webhook{}, false
	}
	return hooks[i], true
}

// OutboxKind is the outbox kind of deliveries to channels.
const OutboxKind = "ingress"

// Delivery makes the delivery of a row of OutboxIngress: a notify.Address. A row of a channel that was removed from the
// settings fails, and the outbox gives up on it in its own time.
func (hooks Webhooks) Delivery(i store.OutboxItem) (notify.Delivery, error) {
	w, ok := hooks.named(i.Target)
	if !ok {
		return notify.Delivery{}, errors.New("server: no such channel any more")
	}
	var of struct {
		RunID string `json:"run_id"`
	}
	_ = json.Unmarshal(i.Payload, &of) // of our own writing
	return notify.Delivery{URL: w.Callback, Secret: w.Secret, Body: i.Payload, TurnID: of.RunID}, nil
}

// WebhookHandler is POST /v1/ingress: the messages of the channel, one a request, signed. What
// it leads to goes to the channel's callback by way of the outbox.
// It shares everything with the WebSocket's Handler but the way out: answers go through the outbox,
// which retries a callback that is down.
type WebhookHandler struct {
	*Handler
	hooks Webhooks
	relay *channelfeed.Relay
}

// Mount adds POST /v1/ingress.
func (h *WebhookHandler) Mount(to *route.Routes) {
	// The route is open: the signature authenticates.
	to.Open(http.MethodPost, "/v1/ingress", h.post)
}

const (
	headerChannel = "X-Aqueduct-Channel"
	// signedFor is how old, or how early, a signature may be.
	signedFor = 5 * time.Minute
)

// webhookSender is what every such message has besides. A request_id lets it come twice: the second has no effect. A
// channel speaks for any user of its tenant, so the user is part of each message.
type webhookSender struct {
	UserID    string `json:"user_id" validate:"required,max=128"`
	RequestID string `json:"request_id" validate:"required"`
}

// acceptedJSON is the answer to a message that was taken. The result is not in it; it goes to the callback.
type acceptedJSON struct {
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id,omitempty"`
	RunID     string `json:"run_id"`
}

// The header's time is checked before the body is read, the signature after: a sender without a
// recent signature must not make the server read a body, and the signature can only be verified with
// it. 202 is sent when the message is in the store; its effects are not awaited.
func (h *WebhookHandler) post(c echo.Context) error {
	r := c.Request()
	hook, ok := h.hooks.named(r.Header.Get(headerChannel))
	signature := r.Header.Get(notify.HeaderSignature)
	if !ok || notify.Timely(signature, time.Now(), signedFor) != nil {
		return h.In.Refused(c, unsigned()) // before the body: these headers are all that is known of its sender
	}
	raw, err := h.In.Body(c)
	if err != nil {
		return err
	}
	if notify.Verify(hook.Secret, signature, raw, time.Now(), signedFor) != nil {
		return h.In.Refused(c, unsigned())
	}
	if err := h.In.Known(c); err != nil {
		return err
	}
	frame, err := h.take(r.Context(), hook, raw, r.RemoteAddr)
	if err != nil {
		return webhookProblem(err)
	}
	if frame.Type == typeTaskEnqueued {
		return c.JSON(http.StatusAccepted, Enqueued{typeTaskEnqueued, frame.RequestID, frame.SessionID, frame.RunID})
	}
	return c.JSON(http.StatusAccepted, acceptedJSON{RequestID: frame.RequestID, SessionID: frame.SessionID, RunID: frame.RunID})
}

// unsigned refuses a message whose sender is unknown.
func unsigned() error {
	return problem.Refuse(problem.Unauthorized, "A channel signs its messages: "+headerChannel+" names one that is configured here, "+
		notify.HeaderSignature+" is made with its secret, over this body, within the last minutes.")
}

// webhookProblem gives a refusal that only channels have the code that HTTP has for it. Any other error stays as it is.
// The HTTP contract has a closed list of codes, to which the channel's own codes do not belong.
func webhookProblem(err error) error {
	own, ok := problem.ChannelOnly(err)
	switch {
	case !ok:
		return err
	case own.Code == problem.MessageNotTaken:
		return problem.Refuse(bridge.RefusedRunInProgress, own.Message)
	case own.Code == problem.ForeignUser:
		return problem.Refuse(problem.Unauthorized, own.Message)
	}
	return problem.Refuse(problem.InvalidBody, own.Message)
}

// take executes a message, and completes its envelope with what the message is about.
// The relay's cursor is added after the chat was committed. When the process dies between the two,
// the channel repeats its request, as it got no answer, and the repetition adds the cursor: chat
// returns the same Run for the same request_id.
func (h *WebhookHandler) take(ctx context.Context, hook Webhook, raw []byte, remote string) (frame Envelope, err error) {
	var from webhookSender
	if err := h.In.Message(raw, &from); err != nil {
		return frame, err
	}
	if err := h.In.Message(raw, &frame); err != nil {
		return frame, err
	}
	caller, err := h.actingFor(auth.Caller{Kind: auth.KindChannel, Principal: store.Principal{Tenant: hook.Tenant}, ChannelID: hook.ID}, from.UserID)
	if err != nil {
		return frame, err
	}
	desk := dispatcher{h: h.Handler, caller: caller, in: caller.Scope(), callback: true, remote: remote}
	cur := channelfeed.Cursor{Channel: hook.ID, Tenant: hook.Tenant, User: caller.Principal.User}
	switch frame.Type {
	case "agent_invoke":
		waits, err := desk.waits(ctx, raw)
		if err != nil {
			return frame, err
		}
		if waits {
			task, err := desk.enqueue(ctx, &frame, raw, hook.ID)
			frame.Type, frame.SessionID = typeTaskEnqueued, task.ThreadID
			return frame, err
		}
		reply, err := desk.chat(ctx, &frame, raw)
		if err != nil {
			return frame, err
		}
		frame.RunID = reply.Run.TurnID
		cur.SessionID, cur.TurnID, cur.Seq = reply.Session.ID, reply.Run.TurnID, seqOf(reply.After+1, -1)
		return frame, h.relay.Add(ctx, reply.Run.TurnID, cur)
	case "tool_result":
		settled, err := desk.toolResult(ctx, &frame, raw)
		return frame, webhookSettled(settled, err)
	case "approval_decision":
		settled, err := desk.decision(ctx, &frame, raw)
		return frame, webhookSettled(settled, err)
	case "cancel_run":
		_, err := desk.cancelTurn(ctx, &frame)
		return frame, err
	case "replay_run":
		turn, err := desk.turn(ctx, &frame)
		if err == nil {
			err = desk.locate(ctx, &frame, turn.SessionID, turn.ID)
		}
		if err != nil {
			return frame, err
		}
		cur.SessionID, cur.TurnID, cur.Replay = turn.SessionID, turn.ID, true
		return frame, h.relay.Add(ctx, hook.ID+" "+cur.User+" "+frame.RequestID, cur)
	}
	return frame, fault.New(problem.UnknownType, "There is no message of that type.")
}

// webhookSettled turns a decision that came too late into a problem that holds the earlier decision.
// The channel shows its user who decided what, instead of a bare conflict.
func webhookSettled(settled approval.Settled, err error) error {
	if fault.CodeOf(err) != approval.AlreadyDecided {
		return err
	}
	p := problem.Of(err)
	if settled.Question.ClientTool() {
		out := answer.ToolCallOf(settled)
		p.ToolCall = &out
	} else {
		out := answer.ApprovalOf(settled.Question.Approval, "")
		p.Approval = &out
	}
	return p
}

// Rung notifies the relay that rows of a Session were committed.
func (h *WebhookHandler) Rung(sessionID string) { h.relay.Rung(sessionID) }

// Landed notifies the relay that a try of a delivery has ended.
func (h *WebhookHandler) Landed(i store.OutboxItem) { h.relay.Landed(i) }

// Relay moves what the channels' callbacks are to receive to the outbox until ctx ends. Without channels it only
// waits, so that the program may treat it like every other part.
func (h *WebhookHandler) Relay(ctx context.Context) error {
	if len(h.hooks) > 0 {
		h.relay.Run(ctx)
	}
	<-ctx.Done()
	return nil
}
