// The words of two refusals that a person meets while setting the server up. They name the setting that helps, with
// the value filled in, because "forbidden" alone sends people to the source.

package server

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// printableHost is what a Host or the host of an Origin must look like before a refusal repeats it inside a command
// line: a name or an address, with or without a port, and nothing that a shell would interpret. The bounds are those
// of DNS names, ports and IPv6 addresses.
var printableHost = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?$|^\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?$`)

// foreignHostAdvice is the detail of foreign_host: the setting that would let this Host in.
// Empty (the code's own meaning) where the Host is no name.
func foreignHostAdvice(host string) string {
	if !printableHost.MatchString(host) {
		return ""
	}
	return fmt.Sprintf("The Host %q is not one this server goes by. If people reach it under that name, or a proxy sends it, "+
		"start it with: aqueduct serve --allowed-host %s", host, hostName(host))
}

// forbiddenOriginAdvice is the detail of forbidden_origin: why the page was refused and the two ways to let it in,
// the setting with the page's origin spelled out. The proxy is the common cause: pages work on the developer's
// machine and fail behind a proxy that rewrites one of the two headers.
func forbiddenOriginAdvice(r *http.Request, origin string) string {
	host := r.Host
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !printableHost.MatchString(u.Host) {
		return "This page has no origin that could be allowed (a file, a sandboxed frame, an extension). Serve it over http."
	}
	page := u.Scheme + "://" + strings.ToLower(u.Host)
	if name, here := twoLoopbacks(r); name != "" {
		return fmt.Sprintf("The page is on %s and calls %s. To a browser these are two sites, and it sends no session from one to the other. "+
			"Open the page under %s, or let it call %s.", page, host, here, name)
	}
	if !printableHost.MatchString(host) {
		host = "another"
	}
	return fmt.Sprintf("The page is of %s, but the request's Host is %s. If a proxy in between rewrites Host, let it keep the browser's "+
		"(nginx: proxy_set_header Host $http_host; Vite: no changeOrigin). Otherwise let pages of that origin call, with: "+
		"aqueduct serve --cors-origin %s", page, host, page)
}
