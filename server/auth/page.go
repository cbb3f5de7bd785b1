// This file is the second half of a browser session: what a page shows beside the cookie. Cookies know no port, so where
// ports share the host's name every program that listens on another port is sent the session's cookie too.

package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"aqueduct/store"
)

// PageHeader carries the page's secret: the server answers a sign-in with it, and the page sends it with every request. Only
// scripts of the page's origin can hold it, and an origin has a port.
const PageHeader = "X-Aqueduct-Page"

// ErrNoPage is a session's cookie without the page's secret or a ticket. It counts as no credential: a page from before its
// sign-in, or in a private window, sends it.
var ErrNoPage = fmt.Errorf("%w: the cookie came without the page's secret", ErrNoCredential)

// ErrNoSession refuses a ticket to a caller who has no session: programs send their token with each request.
var ErrNoSession = errors.New("auth: tickets are for pages that have signed in")

// TicketTime is how long a ticket is good. The page opens the socket or the image at once; a log that others read keeps the URL
// for longer.
const TicketTime = 30 * time.Second

// ticketForm is "aqt", a nonce, the end in Unix seconds and the MAC, with "_" in between.
const ticketForm = "aqt"

// own reports whether the session's cookie goes to this server alone: it is bound to https, and the name is not one of this
// machine, where Chromium sends a secure cookie to plain http as well. The Host of a sign-in is the browser's or that of a proxy.
func (c cookies) own(r *http.Request) bool { return c.secureFor(r) && !loopbackHost(r.Host) }

// loopbackHost reports whether a Host names this machine.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (addr.Unmap().IsLoopback() || addr.IsUnspecified())
}

// pageSecret derives the secret of a session from the key that signed it, so that no row and no cookie holds it.
func pageSecret(key []byte, session string) Secret {
	return Secret(seal(key, "aqueduct page", session))
}

// seal is a MAC over parts, none of which may hold the NUL between them.
func seal(key []byte, parts ...string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(mac.Sum(nil))
}

// SignedIn is a session that has begun: the cookie for the browser, nil where it has it, and the secret for the page.
type SignedIn struct {
	Cookie *http.Cookie
	Page   Secret
}

// Ticket makes a ticket of the Caller's session for one route: the path of a GET. Where no token is needed, the ticket opens
// a route that is open anyway, so that one page works with both.
func (c Caller) Ticket(path string) (Secret, time.Time, error) {
	until := time.Now().Add(TicketTime).Truncate(time.Second)
	if c.page == "" && c.Kind != KindNone {
		return "", until, ErrNoSession
	}
	return ticket(c.page, http.MethodGet, path, until), until, nil
}

// PageTicket makes the ticket by which the page that follows a sign-in at a provider gets its secret, with a POST of it.
func (s SignedIn) PageTicket() Secret {
	return ticket(s.Page, http.MethodPost, sessionPath, time.Now().Add(TicketTime))
}

// sessionPath is where a page signs in.
const sessionPath = "/api/session"

func ticket(page Secret, method, path string, until time.Time) Secret {
	nonce, end := rand.Text(), strconv.FormatInt(until.Unix(), 10)
	return Secret(strings.Join([]string{ticketForm, nonce, end, seal([]byte(page), "aqueduct ticket", method, path, nonce, end)}, "_"))
}

// ticketKey is the key of a request's ticket in its context.
type ticketKey struct{}

// WithTicket returns the request with a ticket that came beside it.
func WithTicket(r *http.Request, ticket string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), ticketKey{}, Secret(ticket)))
}

// TakeTicket takes ?ticket= out of a request's URL, so that no handler, log or link gets it. Two of them count as none.
func TakeTicket(r *http.Request) *http.Request {
	var found []string
	rest := slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "ticket" {
			return false
		}
		found = append(found, value)
		return true
	})
	if len(found) == 0 {
		return r
	}
	to := *r.URL
	to.RawQuery = strings.Join(rest, "&")
	r = WithTicket(r, strings.Join(found, "&"))
	r.URL, r.RequestURI = &to, to.RequestURI()
	return r
}

// provesPage checks what a request shows beside the cookie of a session: the page's secret, or a ticket for this very route that
// was not used before.
func (c Caller) provesPage(r *http.Request, used *Registry) error {
	if c.page == "" {
		return ErrNoPage // a key that has no id has signed it: no page can hold its secret
	}
	if shown := r.Header.Values(PageHeader); len(shown) > 1 || len(shown) == 1 && shown[0] != "" {
		if len(shown) != 1 || !c.page.Is(shown[0]) {
			return ErrBadCredential
		}
		return nil
	}
	shown, _ := r.Context().Value(ticketKey{}).(Secret)
	if shown == "" {
		return ErrNoPage
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(string(shown), "_")
	if len(parts) != 4 || parts[0] != ticketForm || !equal(parts[3], seal([]byte(c.page), "aqueduct ticket", method, r.URL.EscapedPath(), parts[1], parts[2])) {
		return ErrBadCredential
	}
	end, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || !time.Now().Before(time.Unix(end, 0)) {
		return ErrBadCredential
	}
	return used.useTicket(r.Context(), parts[1], time.Unix(end, 0))
}

// useTicket uses a ticket up. The row is one of the database, so that of two requests, on whichever replicas, one is first.
func (r *Registry) useTicket(ctx context.Context, id string, until time.Time) error {
	if r == nil {
		return ErrBadCredential
	}
	return r.store.InTx(ctx, func(tx store.Tx) error {
		first, err := tx.UseTicket(ctx, id, until)
		if err == nil && !first {
			return ErrBadCredential
		}
		return err
	})
}

// Page returns the secret of a session that has begun at a provider, for the ticket that its page was sent back with. The cookie
// has named the Caller. A secret in the request does not stand in for the ticket.
func (r *Registry) Page(req *http.Request, c Caller, ticket string) (SignedIn, error) {
	req = WithTicket(req, ticket)
	req.Header = req.Header.Clone()
	req.Header.Del(PageHeader)
	if err := c.provesPage(req, r); err != nil {
		return SignedIn{}, err
	}
	return SignedIn{Page: c.page}, nil
}
