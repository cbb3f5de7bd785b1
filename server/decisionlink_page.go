package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/notify/link"
	"aqueduct/internal/safetext"
	"aqueduct/store"
)

//go:embed decisionlink.html
var decisionHTML string

//go:embed decisionlink.css
var decisionCSS string

//go:embed decisionlink.js
var decisionJS string

// decisionPage is what a link shows. Everything in it that an agent wrote is escaped, and
// what could make it look like something else is made visible.
type decisionPage struct {
	template *template.Template
	policy   string
}

func newDecisionPage() *decisionPage {
	return &decisionPage{
		template: template.Must(template.New("decide").Parse(decisionHTML)), // part of the program
		// Nothing runs or loads but the page's own script and style, known by their hashes; it
		// can call this server, be framed by nobody and send no form.
		policy: "default-src 'none'; script-src " + hashSource(decisionJS) + "; style-src " + hashSource(decisionCSS) +
			"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// headers keep the page, whose address is a credential, out of caches, indexes, frames and
// the referrers of whatever it leads to.
func (p *decisionPage) headers(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// decisionView is what the template takes.
type decisionView struct {
	Style  template.CSS
	Script template.JS

	Heading, Detail string // of a refusal

	Page     string
	User     []safetext.Mark
	Tool     []safetext.Mark
	Title    []safetext.Mark
	Risk     []safetext.Mark
	Args     []safetext.Mark
	ArgsSize int
	Odd      bool // the arguments have characters that are shown as marks
	SHA256   string
	Expires  string
	Ours     bool // the arguments shown are those that run
	Options  []optionView
}

type optionView struct {
	Name   string          // what it does, in our words: by its kind
	Label  []safetext.Mark // in the agent's
	Value  string
	Allows bool
}

const (
	maxShownTitle = 300
	maxShownLabel = 80
)

func (p *decisionPage) show(c echo.Context, claims link.Claims, a store.Approval, nonce string, ours bool) error {
	args := safetext.Visible(safetext.Indented(a.Args), safetext.KeepLines)
	view := decisionView{
		Page: nonce, User: safetext.Visible(claims.User, maxShownLabel), Tool: safetext.Visible(a.Tool, maxShownTitle), Title: safetext.Visible(a.Title, maxShownTitle),
		Risk: safetext.Visible(a.Risk, maxShownLabel), Args: args, ArgsSize: len(a.Args), Odd: safetext.HasOdd(args), SHA256: a.ArgsSHA256,
		Expires: claims.ExpiresAt().Format(time.RFC1123), Ours: ours,
	}
	for i, o := range (inbox.Question{Approval: a}).Options() {
		if !inbox.KnownKind(o.Kind) {
			continue // what it would do cannot be said
		}
		view.Options = append(view.Options, optionView{
			Name: optionName(o.Kind), Label: safetext.Visible(o.Label, maxShownLabel), Value: fmt.Sprintf("%s:%d", a.ID, i), Allows: o.Allows(),
		})
	}
	return p.write(c, http.StatusOK, view)
}

func (p *decisionPage) refuse(c echo.Context, why *problem) error {
	return p.write(c, why.Status, decisionView{Heading: "This link cannot be used", Detail: why.Detail})
}

func (p *decisionPage) write(c echo.Context, status int, view decisionView) error {
	view.Style, view.Script = template.CSS(decisionCSS), template.JS(decisionJS)
	var out bytes.Buffer
	if err := p.template.Execute(&out, view); err != nil {
		return err
	}
	return c.HTMLBlob(status, out.Bytes())
}

// optionName is what choosing an option does. Its label may say anything.
func optionName(kind string) string {
	switch kind {
	case inbox.AllowOnce:
		return "Allow once"
	case inbox.AllowAlways:
		return "Allow always"
	case inbox.RejectAlways:
		return "Reject always"
	}
	return "Reject"
}

func statusTitle(s store.ApprovalStatus) string {
	switch s {
	case store.ApprovalApproved:
		return "Allowed"
	case store.ApprovalRejected:
		return "Rejected"
	}
	return "Settled"
}
