// The thread of a TDesign page, which names none: each browser gets one, by a cookie. Also how thread ids travel in
// headers, because the answer to such a page is the only place where it learns its thread.

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// browserCookie distinguishes browsers for TDesign pages, which send no thread id and, as uid, a constant. The uid of
// such pages is the same for everybody, so it cannot name a thread.
const browserCookie = "aqueduct_browser"

// secureCookies is where the guard notes, in echo's context, that a request's cookies are secure ones. It is set
// before the request is routed, for every request.
const secureCookies = "secure cookies"

// browserThread stands for the browser's own thread where a path wants a thread's id. No thread can be named so. A
// page that uses it needs no JavaScript of its own to know its thread.
const browserThread = "@browser"

// browserThreadID is the thread of the calling browser; "" when it has none yet. The cookie with the secure prefix
// wins: a page on plain http of the same host could set the other one, and so choose which thread this browser talks
// in. Values that are too short were not made by newBrowserThread and could be guessed.
func browserThreadID(r *http.Request) string {
	c, err := r.Cookie(auth.CookieName(browserCookie, true))
	if err != nil {
		c, err = r.Cookie(browserCookie)
	}
	if err != nil || len(c.Value) < len(rand.Text()) || len(c.Value) > 128 {
		return ""
	}
	return threadOf(c.Value)
}

// threadOf derives the thread's id, so that who sees the id (it is in every RUN_STARTED) has not got the cookie. The
// hash is over a fixed word and the secret, so the id is the same on every replica and nothing has to be stored.
func threadOf(secret string) string {
	sum := sha256.Sum256([]byte("aqueduct thread " + secret))
	return "browser-" + hex.EncodeToString(sum[:16])
}

// newBrowserThread gives the browser a cookie and returns the thread that goes with it. The cookie lives for a year,
// and only requests of this site send it (SameSite=Strict): a page of a stranger cannot talk in the thread.
func newBrowserThread(c echo.Context) string {
	secret := rand.Text()
	cookie := &http.Cookie{
		Name: browserCookie, Value: secret, Path: "/api/", MaxAge: 365 * 24 * 60 * 60,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if secure, _ := c.Get(secureCookies).(bool); secure {
		cookie.Name, cookie.Path, cookie.Secure = auth.CookieName(browserCookie, true), "/", true // the prefix wants this path
	}
	c.SetCookie(cookie)
	return threadOf(secret)
}

// setID puts an id into a header, which takes no more than visible ASCII: the rest is percent-encoded, as in a path.
// Ids of clients may hold any letter, and a byte outside of ASCII in a header is dropped or garbled by some proxies.
func setID(h http.Header, name, id string) {
	value := make([]byte, 0, len(id))
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '%' {
			value = fmt.Appendf(value, "%%%02X", c)
		} else {
			value = append(value, c)
		}
	}
	h.Set(name, string(value))
}

// headerID is the thread a request names in its header: as it is, or percent-encoded. A text that is no valid
// encoding is taken as it is: clients that never encode may have a % in their ids.
func headerID(h http.Header) string {
	given := h.Get(headerThread)
	if id, err := url.PathUnescape(given); err == nil {
		return id
	}
	return given
}
