package outbound

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// redirect decides about a redirect before it is followed. Where it leads is checked like
// any other address, in RoundTrip.
func (g *Gate) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case g.limits.Redirects < 0:
		return http.ErrUseLastResponse
	case len(via) > g.limits.Redirects:
		return &Refused{ReasonRedirects}
	case req.URL.Scheme != "https" && slices.ContainsFunc(via, func(r *http.Request) bool { return r.URL.Scheme == "https" }):
		return &Refused{ReasonDowngrade}
	}
	// Once it has left the first origin the call stays stripped, even if it is sent back: net/http copies the headers
	// of the first request to each that follows.
	req.Header.Del("Referer") // its query may hold secrets of the first origin
	if first := via[0].URL; origin(req.URL) != origin(first) ||
		slices.ContainsFunc(via, func(r *http.Request) bool { return origin(r.URL) != origin(first) }) {
		keepHarmless(req.Header)
	}
	return nil
}

// origin is scheme, host and port. net/http drops Authorization only for another domain; another port or a subdomain may
// be a different party's server as well.
func origin(u *url.URL) string {
	to, _ := targetOf(u) // what cannot be read is refused before it is called
	return u.Scheme + "://" + to.name + ":" + strconv.Itoa(int(to.port))
}

// keepHarmless drops every header that may be a secret meant for the first origin: not
// only Authorization and cookies, but run tokens, signatures and keys by whatever name.
func keepHarmless(h http.Header) {
	for name := range h {
		switch name {
		case "Accept", "Accept-Language", "Content-Type", "User-Agent", "Cache-Control":
		default:
			delete(h, name)
		}
	}
}
