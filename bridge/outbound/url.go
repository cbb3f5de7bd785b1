package outbound

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckURL checks whether an address may be registered. It resolves no name: that is checked at each call.
func (g *Gate) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || strings.ContainsAny(raw, "\\") || raw != strings.TrimSpace(raw) {
		return &Refused{ReasonURL} // browsers and libraries read a backslash in two ways
	}
	if refused := g.checkURL(u); refused != nil { // a nil *Refused would be an error that is not nil
		return refused
	}
	return nil
}

// checkURL is CheckURL for a URL that has been read. net/url accepts more than the plain forms; setHost refuses them.
func (g *Gate) checkURL(u *url.URL) *Refused {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &Refused{ReasonScheme}
	case u.User != nil:
		return &Refused{ReasonUserinfo}
	case u.Opaque != "":
		return &Refused{ReasonURL}
	}
	to, refused := targetOf(u)
	if refused != nil {
		return refused
	}
	if to.literal.IsValid() {
		return g.allow.judge(to, to.literal)
	}
	return g.allow.judgeName(to)
}

// target is where a call is to go.
type target struct {
	secure  bool
	name    string     // lower case; of an address, as it was written
	literal netip.Addr // set when the host is an address
	port    uint16     // of the call, the scheme's usual one where the URL has none; never 0
}

// targetOf reads a URL's target. With a refusal it is incomplete, and only good for being compared (origin).
func targetOf(u *url.URL) (target, *Refused) {
	to := target{secure: u.Scheme == "https", port: 80}
	if to.secure {
		to.port = 443
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return to, &Refused{ReasonPort}
		}
		to.port = uint16(n)
	} else if strings.HasSuffix(u.Host, ":") {
		return to, &Refused{ReasonURL}
	}
	return to, to.setHost(u.Hostname())
}

// setHost takes an address or a name, spelt the plain way. Every other spelling (127.1,
// 0x7f000001, 2130706433, 0177.0.0.1, full-width digits, a trailing dot) is refused, not
// interpreted: two readers might disagree about it.
func (t *target) setHost(host string) *Refused {
	t.name = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return &Refused{ReasonLinkLocal}
		}
		t.literal = addr
		return nil
	}
	if !plainName(t.name) {
		return &Refused{ReasonHost}
	}
	return nil
}

// maxName is the length of the longest name in DNS, written with dots.
const maxName = 253

// plainName reports whether a name is letters, digits, hyphens and dots, in labels that
// DNS takes, and does not end in something an address parser might take for a number.
// Names in other scripts are written in punycode.
func plainName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !plainLabel(label) {
			return false
		}
	}
	return !numeric(labels[len(labels)-1])
}

// plainLabel takes a label in lower case. RFC 952 allows no underscore in the name of a host, but names of
// containers have it.
func plainLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// numeric is the WHATWG's "ends in a number". Where it holds, a browser reads the whole name as an IPv4 address.
func numeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}
