package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// surface is the surface that decisions by link are recorded with.
const surface = "link"

// Handler is /decide/{token}: one decision by a signed link, without signing in. A GET changes nothing, because mail scanners
// follow links. The decision needs a click in the page, which posts a nonce that only the page has.
type Handler struct {
	approvals *approval.Service
	store     store.Store
	links     *Book // nil: there are none
	auth      *auth.Auth
	in        *decode.Decoder
	page      *page
}

// New makes the handler of /decide/{token}.
func New(approvals *approval.Service, st store.Store, links *Book, callers *auth.Auth, in *decode.Decoder) *Handler {
	return &Handler{approvals: approvals, store: st, links: links, auth: callers, in: in, page: newPage(approvals.OptionIDs())}
}

// Mount adds the two routes of a link: a page to look at, and the click that decides.
func (h *Handler) Mount(to *route.Routes) {
	to.Open(http.MethodGet, "/decide/:token", h.show)
	to.Open(http.MethodPost, "/decide/:token", h.decide)
}

// show is the page: the question, or why it cannot be decided here. A refusal is a page too, for a person reads it;
// faults of the server and too many tries stay problems.
func (h *Handler) show(c echo.Context) error {
	h.page.headers(c.Response().Header())
	claims, a, err := h.open(c)
	if err != nil {
		p := problem.Of(err)
		if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
			return err
		}
		return h.page.refuse(c, p)
	}
	ours, err := h.executedHere(c.Request().Context(), claims)
	if err != nil {
		return err
	}
	return h.page.show(c, claims, a, h.links.Page(claims, time.Now()), ours)
}

// executedHere reports whether this server executes what is asked about, so that the arguments shown are those that run. For
// a call that the agent executes itself only the agent's claim can be shown. A delegate cannot read the call, and gets the
// weaker wording.
func (h *Handler) executedHere(ctx context.Context, claims Claims) (bool, error) {
	call, err := h.store.ToolCall(ctx, store.As(claims.Approver()), claims.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && call.Kind != store.KindQuestion, err
}

// open reads the link and its Question. It is refused when its signature is bad, it has expired or was used, another
// user than its approver is signed in, the Question is settled, or the arguments differ from those in the
// notification. A bad signature counts as a failed credential of the address, so that links cannot be guessed by
// trying.
func (h *Handler) open(c echo.Context) (Claims, store.Approval, error) {
	if h.links == nil {
		return Claims{}, store.Approval{}, problem.Refuse(problem.LinkInvalid, "")
	}
	claims, err := h.links.Read(c.Param("token"), time.Now())
	if errors.Is(err, ErrExpired) {
		return claims, store.Approval{}, problem.Refuse(problem.LinkExpired, "")
	}
	if err != nil {
		return claims, store.Approval{}, h.in.Failed(c, problem.Refuse(problem.LinkInvalid, ""))
	}
	if err := h.mayUse(c.Request(), claims); err != nil {
		return claims, store.Approval{}, err
	}
	a, err := h.find(c.Request().Context(), claims)
	return claims, a, err
}

// mayUse checks the caller against the link. The link alone is enough, but a caller who is signed in as another user than its
// approver is refused, and so is a token in a header that is not a person's, such as an agent's. A stale cookie is ignored. The
// page of a link has no secret of a session, so the cookie alone names the user who is signed in.
func (h *Handler) mayUse(r *http.Request, claims Claims) error {
	caller, err := h.auth.Caller(r, auth.KindApprover)
	if err != nil {
		if r.Header.Get("Authorization") != "" {
			return err
		}
		if caller, err = h.auth.Named(r, auth.KindUser, auth.KindApprover); err != nil {
			return nil // no session, or a stale one
		}
	}
	who := caller.Principal
	if caller.Kind != auth.KindNone && (who.Tenant != claims.Tenant || who.User != claims.User) {
		return problem.Refuse(problem.LinkForeign, "")
	}
	return nil
}

// find reads the Question and refuses a link whose time is over in one of five ways: the Question is gone, its
// approver's credentials were revoked since, the link was used, the arguments are others now, or the Question is
// settled. The arguments are compared by hash with those that the approver was sent.
func (h *Handler) find(ctx context.Context, claims Claims) (store.Approval, error) {
	a, err := h.store.Approval(ctx, store.As(claims.Approver()), claims.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		return a, problem.Refuse(problem.LinkInvalid, "")
	}
	if err != nil {
		return a, err
	}
	// A link was sent when its Question was opened. One from before all that its approver had was revoked
	// is revoked with it.
	revoked, err := h.store.UserRevokedAt(ctx, claims.Tenant, claims.User)
	if err != nil {
		return a, err
	}
	if !revoked.Before(a.CreatedAt) && !revoked.IsZero() {
		return a, problem.Refuse(problem.LinkInvalid, "")
	}
	used, err := h.links.Used(ctx, claims)
	switch {
	case err != nil:
		return a, err
	case used:
		return a, problem.Refuse(problem.LinkUsed, "")
	case a.ArgsSHA256 != claims.ArgsSHA256:
		return a, problem.Refuse(problem.LinkChanged, "")
	case a.Status != store.ApprovalPending:
		return a, decidedElsewhere(a)
	}
	return a, nil
}

// decidedElsewhere is the decision that stands. It does not repeat the arguments: the page of a settled Question shows none.
func decidedElsewhere(a store.Approval) *problem.Problem {
	return problem.Refuse(approval.AlreadyDecided, "It is "+string(a.Status)+" already, by "+cmp.Or(a.DecidedBy, "the server")+" via "+a.DecidedVia+".")
}

// clickBody is what the page's script posts.
type clickBody struct {
	Page     string `json:"page" validate:"required,max=256"` // the nonce
	OptionID string `json:"option_id" validate:"required,max=256"`
}

// decide is the click. The link is checked once more, because the page may have been open for long; then the nonce,
// which proves that this link's page was shown in this browser within the hour.
func (h *Handler) decide(c echo.Context) error {
	h.page.headers(c.Response().Header())
	if from := c.Request().Header.Get("Sec-Fetch-Site"); from != "" && from != "same-origin" {
		return problem.Refuse(problem.ForbiddenOrigin, "") // of other origins that may call, none has this page
	}
	claims, a, err := h.open(c) // before the body: the link is the credential
	if err != nil {
		return err
	}
	var body clickBody
	if err := h.in.SmallJSON(c, &body); err != nil {
		return err
	}
	if !h.links.ReadPage(claims, body.Page, time.Now()) {
		return problem.Refuse(problem.LinkPage, "")
	}
	if err := h.in.MayDecide(c, claims.Approver()); err != nil {
		return err
	}
	settled, err := h.settle(c.Request().Context(), claims, a, body.OptionID)
	if fault.CodeOf(err) == approval.AlreadyDecided {
		return decidedElsewhere(settled.Question.Approval)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, struct {
		Status string `json:"status"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}{string(settled.Question.Approval.Status), statusTitle(settled.Question.Approval.Status), "The agent has been told. You can close this page."})
}

// settle uses the link up and decides. Only when the decision certainly was not made can the link be used again;
// after a crash in between it cannot, and the inbox is still there. The claim is committed before the decision. A
// crash between the two leaves a used link and an open Question, never a decision that a second click could repeat.
func (h *Handler) settle(ctx context.Context, claims Claims, a store.Approval, optionID string) (approval.Settled, error) {
	ctx = context.WithoutCancel(ctx) // who closes the page after the click has clicked
	first, err := h.links.Claim(ctx, claims, time.Now())
	if err != nil {
		return approval.Settled{}, err
	}
	if !first {
		return approval.Settled{}, problem.Refuse(problem.LinkUsed, "")
	}
	payload, err := json.Marshal(map[string]string{"optionId": optionID})
	if err != nil {
		return approval.Settled{}, err
	}
	settled, err := h.approvals.Decide(ctx, claims.Approver(), a.ID, approval.Answer{QuestionID: a.ID, Payload: payload}, surface)
	if notMade(err) {
		err = errors.Join(err, h.links.Release(ctx, claims))
	}
	return settled, err
}

// notMade reports whether a failed decision certainly changed nothing. An unknown outcome does not count, nor does
// AlreadyDecided.
func notMade(err error) bool {
	if code := fault.CodeOf(err); code != "" {
		return code != approval.AlreadyDecided
	}
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotFound)
}
