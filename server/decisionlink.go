package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/notify/link"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// Codes of links.
const (
	codeLinkInvalid = "link_invalid"
	codeLinkExpired = "link_expired"
	codeLinkUsed    = "link_used"
	codeLinkChanged = "link_args_changed"
	codeLinkForeign = "link_foreign"
	codeLinkPage    = "link_page_expired"
)

// viaLink is the surface decisions by link are told to have come by.
const viaLink = "link"

// decisionLinks is /decide/{token}: one decision by a signed link, without signing in.
// Looking at it changes nothing, whoever or whatever looks: mail scanners follow links. It
// takes a click in a page of ours, by which a nonce of that page comes along.
type decisionLinks struct {
	sessions *bridge.Sessions
	store    store.Store
	links    *link.Book // nil: there are none
	auth     *auth.Auth
	in       *intake
	page     *decisionPage
}

func newDecisionLinks(cfg Config, in *intake) *decisionLinks {
	return &decisionLinks{sessions: cfg.Sessions, store: cfg.Store, links: cfg.Links, auth: cfg.Auth, in: in, page: newDecisionPage()}
}

func (h *decisionLinks) mount(to *routes) {
	to.open(http.MethodGet, "/decide/:token", h.show)
	to.open(http.MethodPost, "/decide/:token", h.decide)
}

// show is the page: the question, or why it cannot be decided here.
func (h *decisionLinks) show(c echo.Context) error {
	h.page.headers(c.Response().Header())
	claims, a, err := h.open(c)
	if err != nil {
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
			return err
		}
		return h.page.refuse(c, p)
	}
	ours, err := h.ours(c.Request().Context(), claims)
	if err != nil {
		return err
	}
	return h.page.show(c, claims, a, h.links.Page(claims, time.Now()), ours)
}

// ours reports whether we run what is asked about, so that what is shown is what runs. Of
// what an agent runs itself only its word can be shown. A delegate does not see which it is,
// and is told the less.
func (h *decisionLinks) ours(ctx context.Context, claims link.Claims) (bool, error) {
	call, err := h.store.ToolCall(ctx, store.As(claims.Approver()), claims.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && call.Kind != store.KindQuestion, err
}

// open reads the link and what it is about. It is refused when it is not ours, is out of
// time, was used, is for somebody else than who is signed in, or when the Question is
// settled or not the one the approver was told about.
func (h *decisionLinks) open(c echo.Context) (link.Claims, store.Approval, error) {
	if h.links == nil {
		return link.Claims{}, store.Approval{}, refuse(codeLinkInvalid, "")
	}
	claims, err := h.links.Read(c.Param("token"), time.Now())
	if errors.Is(err, link.ErrExpired) {
		return claims, store.Approval{}, refuse(codeLinkExpired, "")
	}
	if err != nil {
		return claims, store.Approval{}, h.in.failed(c, refuse(codeLinkInvalid, ""))
	}
	if err := h.mayUse(c.Request(), claims); err != nil {
		return claims, store.Approval{}, err
	}
	a, err := h.find(c.Request().Context(), claims)
	return claims, a, err
}

// mayUse: the link is all that is needed, but whoever shows to be somebody else than its
// approver is refused. So is a token in a header that is not a person's, such as the one an
// agent was given; a cookie that has gone stale is not held against anybody.
func (h *decisionLinks) mayUse(r *http.Request, claims link.Claims) error {
	caller, err := h.auth.Caller(r, auth.KindApprover)
	if err != nil {
		if r.Header.Get("Authorization") == "" {
			return nil
		}
		return err
	}
	who := caller.Principal
	if caller.Kind != auth.KindNone && (who.Tenant != claims.Tenant || who.User != claims.User) {
		return refuse(codeLinkForeign, "")
	}
	return nil
}

func (h *decisionLinks) find(ctx context.Context, claims link.Claims) (store.Approval, error) {
	a, err := h.store.Approval(ctx, store.As(claims.Approver()), claims.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		return a, refuse(codeLinkInvalid, "")
	}
	if err != nil {
		return a, err
	}
	used, err := h.links.Used(ctx, claims)
	switch {
	case err != nil:
		return a, err
	case used:
		return a, refuse(codeLinkUsed, "")
	case a.ArgsSHA256 != claims.ArgsSHA256:
		return a, refuse(codeLinkChanged, "")
	case a.Status != store.ApprovalPending:
		return a, decidedElsewhere(a)
	}
	return a, nil
}

// decidedElsewhere says what stands. It does not repeat the arguments: the page of a settled
// Question shows none.
func decidedElsewhere(a store.Approval) *problem {
	by := a.DecidedBy
	if by == "" {
		by = "the server"
	}
	return refuse(bridge.RefusedDecided, "It is "+string(a.Status)+" already, by "+by+" via "+a.DecidedVia+".")
}

type linkDecisionBody struct {
	Page     string `json:"page" validate:"required,max=256"` // the nonce
	OptionID string `json:"option_id" validate:"required,max=256"`
}

func (h *decisionLinks) decide(c echo.Context) error {
	h.page.headers(c.Response().Header())
	if from := c.Request().Header.Get("Sec-Fetch-Site"); from != "" && from != "same-origin" {
		return refuse(codeForbiddenOrigin, "") // of other origins that may call, none has this page
	}
	claims, a, err := h.open(c) // before the body: the link is the credential
	if err != nil {
		return err
	}
	var body linkDecisionBody
	if err := h.in.smallJSON(c, &body); err != nil {
		return err
	}
	if !h.links.ReadPage(claims, body.Page, time.Now()) {
		return refuse(codeLinkPage, "")
	}
	if err := h.in.mayDecide(c, claims.Approver()); err != nil {
		return err
	}
	settled, err := h.settle(c.Request().Context(), claims, a, body.OptionID)
	var refusal *bridge.Refusal
	if errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided {
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

// settle uses the link up and decides. Only when the decision certainly was not made can the
// link be used again; after a crash in between it cannot, and the inbox is still there.
func (h *decisionLinks) settle(ctx context.Context, claims link.Claims, a store.Approval, optionID string) (inbox.Settled, error) {
	ctx = context.WithoutCancel(ctx) // who closes the page after the click has clicked
	first, err := h.links.Claim(ctx, claims, time.Now())
	if err != nil {
		return inbox.Settled{}, err
	}
	if !first {
		return inbox.Settled{}, refuse(codeLinkUsed, "")
	}
	payload, err := json.Marshal(map[string]string{"optionId": optionID})
	if err != nil {
		return inbox.Settled{}, err
	}
	settled, err := h.sessions.Decide(ctx, claims.Approver(), a.ID, inbox.Answer{QuestionID: a.ID, Payload: payload}, viaLink)
	if notMade(err) {
		err = errors.Join(err, h.links.Release(ctx, claims))
	}
	return settled, err
}

func notMade(err error) bool {
	var refusal *bridge.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code != bridge.RefusedDecided
	}
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotFound)
}
