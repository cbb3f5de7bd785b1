// Signs that a request came through a proxy. They matter with --auth none alone, where being on this machine is the
// only credential there is.

package server

import (
	"fmt"
	"net/http"
	"strings"
)

// forwardedBy names a header of the request that only a proxy adds; "" when there is none.
// Without tokens the loopback listener is the whole boundary. A proxy on this machine passes the
// requests of other machines on to it, and these headers are the only sign of that.
func forwardedBy(h http.Header) string {
	// The map is read directly: Header.Get would miss a header whose value is empty.
	for _, name := range []string{"Forwarded", "Via", "X-Real-Ip"} {
		if _, ok := h[name]; ok {
			return name
		}
	}
	// net/http keeps names in their canonical form, so case needs no thought here.
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return name
		}
	}
	return ""
}

// It names both ways out, since either the proxy or the missing token may be the mistake.
func forwardedAdvice(header string) string {
	return fmt.Sprintf("The request came through a proxy (it has the header %s), and this server asks for no token (--auth none), "+
		"which is for programs on its own machine that call it directly. Start it without --auth none, and send the token; or call it without the proxy.", header)
}
