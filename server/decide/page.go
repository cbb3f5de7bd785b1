// The page of a link, as HTML with its script and style inside. It works without the rest of the application and
// without a session.

package decide

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/internal/safetext"
	"aqueduct/server/problem"
	"aqueduct/store"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// page is what a link shows. Everything in it that an agent wrote is escaped, and
// what could make it look like something else is made visible.
type page struct {
	options  approval.OptionIDs
	template *template.Template
	policy   string
}

func newPage(options approval.OptionIDs) *page {
	return &page{
		options:  options,
		template: template.Must(template.New("decide").Parse(pageHTML)), // part of the program
		// Nothing runs or loads but the page's own script and style, known by their hashes. The page can call this server; it
		// cannot be framed and cannot send a form.
		policy: "default-src 'none'; script-src " + hashSource(pageJS) + "; style-src " + hashSource(pageCSS) +
			"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// hashSource names an inline script or style in the Content-Security-Policy.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// headers keep the page, whose address is a credential, out of caches, indexes, frames and
// the referrers of whatever it leads to.
func (p *page) headers(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// view is what the template takes.
type view struct {
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
	Alone    bool // the agent could approve for itself
	Ours     bool // the arguments shown are those that run
	Options  []optionView
}

// optionView is one button. Name is ours, because an agent could call its "allow always" anything.
type optionView struct {
	Name   string          // what it does, in our words: by its kind
	Label  []safetext.Mark // in the agent's
	Value  string
	Allows bool
}

// Longer texts are cut with a mark; the arguments are shown whole.
const (
	maxShownTitle = 300
	maxShownLabel = 80
)

// show is the question with its buttons. Options of an unknown kind are left out, and the value of a button is its
// place among the question's options.
func (p *page) show(c echo.Context, claims Claims, a store.Approval, nonce string, ours bool) error {
	args := safetext.Visible(safetext.Indented(a.Args), safetext.KeepLines)
	view := view{
		Page: nonce, User: safetext.Visible(claims.User, maxShownLabel), Tool: safetext.Visible(a.Tool, maxShownTitle), Title: safetext.Visible(a.Title, maxShownTitle),
		Risk: safetext.Visible(a.Risk, maxShownLabel), Args: args, ArgsSize: len(a.Args), Odd: safetext.HasOdd(args), SHA256: a.ArgsSHA256,
		Expires: claims.ExpiresAt().Format(time.RFC1123), Ours: ours, Alone: a.Unconfined,
	}
	for i, o := range (approval.Question{Approval: a}).Options() {
		if !approval.KnownKind(o.Kind) {
			continue // its effect is unknown
		}
		view.Options = append(view.Options, optionView{
			Name: optionName(o.Kind), Label: safetext.Visible(o.Label, maxShownLabel), Value: p.options.ID(a.ID, i), Allows: o.Allows(),
		})
	}
	return p.write(c, http.StatusOK, view)
}

// refuse is the page with the reason why the link cannot be used.
func (p *page) refuse(c echo.Context, why *problem.Problem) error {
	return p.write(c, why.Status, view{Heading: "This link cannot be used", Detail: why.Detail})
}

// write renders into memory first, so that an error of the template does not leave half a page.
func (p *page) write(c echo.Context, status int, view view) error {
	view.Style, view.Script = template.CSS(pageCSS), template.JS(pageJS)
	var out bytes.Buffer
	if err := p.template.Execute(&out, view); err != nil {
		return err
	}
	return c.HTMLBlob(status, out.Bytes())
}

// optionName is what choosing an option does. Its label may say anything.
func optionName(kind string) string {
	switch kind {
	case approval.AllowOnce:
		return "Allow once"
	case approval.AllowAlways:
		return "Allow always"
	case approval.RejectAlways:
		return "Reject always"
	}
	return "Reject"
}

// statusTitle is what became of the question, for the page that was clicked.
func statusTitle(s store.ApprovalStatus) string {
	switch s {
	case store.ApprovalApproved:
		return "Allowed"
	case store.ApprovalRejected:
		return "Rejected"
	default:
	}
	return "Settled"
}
