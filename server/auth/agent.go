// This file recognises the tokens of agents. An agent that runs on the user's machine may copy its
// token into any header or URL; a request that carries one is the agent's, and must not pass for the
// user's.

package auth

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"aqueduct/store"
)

// runToken is the form of a token that an agent calls with: of a Turn, or of a Session.
var runToken = regexp.MustCompile(store.RunTokenPrefix + `(session_)?[0-9a-f]{8}-[0-9a-f-]{27}_[A-Za-z0-9_-]{20,}`)

// showsRunToken reports whether a request carries an agent's token anywhere outside its body. Such a request comes
// from an agent and must not decide anything, whatever other credential it carries and even where no token is
// required. The body is left out: reading it here would hold it in memory before anything is known of the sender.
func showsRunToken(r *http.Request) bool {
	carries := func(text string) bool {
		return strings.Contains(text, store.RunTokenPrefix) && runToken.MatchString(text)
	}
	ticket, _ := r.Context().Value(ticketKey{}).(Secret) // which was taken out of the URL, or came as a first message
	if carries(r.URL.RawQuery) || carries(string(ticket)) {
		return true
	}
	for _, values := range r.Header {
		if slices.ContainsFunc(values, carries) {
			return true
		}
	}
	return false
}
