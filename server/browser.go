package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// browserCookie tells one browser from another for TDesign pages, which send no thread id
// and, as uid, a constant.
const browserCookie = "aqueduct_browser"

// secureCookies is where the guard notes, in echo's context, that a request's cookies are secure ones.
const secureCookies = "secure cookies"

// browserThread stands for the browser's own thread where a path wants a thread's id. No
// thread can be named so.
const browserThread = "@browser"

// browserThreadID is the thread of the calling browser; "" when it has none yet.
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

// threadOf derives the thread's id, so that who sees the id (it is in every RUN_STARTED)
// has not got the cookie.
func threadOf(secret string) string {
	sum := sha256.Sum256([]byte("aqueduct thread " + secret))
	return "browser-" + hex.EncodeToString(sum[:16])
}

// newBrowserThread gives the browser a cookie and returns the thread that goes with it.
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
