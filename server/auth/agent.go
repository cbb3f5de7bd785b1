package auth

import (
	"net/http"
	"regexp"
	"strings"

	"aqueduct/store"
)

// runToken is the form of a token that an agent calls with: of a Turn, or of a Session.
var runToken = regexp.MustCompile(store.RunTokenPrefix + `(session_)?[0-9a-f]{8}-[0-9a-f-]{27}_[A-Za-z0-9_-]{20,}`)

// showsRunToken reports whether a request carries an agent's token anywhere outside its body. Whoever has one is an agent,
// and decides nothing, whatever else the request carries and where nobody needs a token.
func showsRunToken(r *http.Request) bool {
	carries := func(text string) bool {
		return strings.Contains(text, store.RunTokenPrefix) && runToken.MatchString(text)
	}
	if carries(r.URL.RawQuery) {
		return true
	}
	for _, values := range r.Header {
		for _, value := range values {
			if carries(value) {
				return true
			}
		}
	}
	return false
}
