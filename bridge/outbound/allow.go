package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// allowList is Config.Allow, read.
type allowList struct {
	names    []allowedName
	networks []allowedNetwork
}

// allowedName is an entry that names a host. It opens private addresses that the name resolves to, and loopback only
// where it is a name that RFC 6761 reserves for that (localName): the owner of another could point it here.
type allowedName struct {
	name  string // without "*"
	below bool   // every name below it, not itself
	port  uint16 // 0: the two usual ones
}

// allowedNetwork is an entry that is an address or a network. Its author knows what is there, so it opens all
// that can be opened.
type allowedNetwork struct {
	prefix netip.Prefix
	port   uint16 // 0: see anyPort
	// anyPort: a network was listed, not an address.
	anyPort bool
}

// parseAllow reads the entries without regard to case or surrounding space.
func parseAllow(entries []string) (allowList, error) {
	var list allowList
	for _, entry := range entries {
		if err := list.add(strings.ToLower(strings.TrimSpace(entry))); err != nil {
			return allowList{}, fmt.Errorf("outbound: %q is no host, host:port or network", entry)
		}
	}
	return list, nil
}

func (l *allowList) add(entry string) error {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		// A network given by mapped addresses is the one of IPv4 that it holds.
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		l.networks = append(l.networks, allowedNetwork{prefix: prefix.Masked(), anyPort: true})
		return nil
	}
	host, port, err := splitPort(entry)
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		l.networks = append(l.networks, allowedNetwork{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port})
		return nil
	}
	name, below := strings.CutPrefix(host, "*.")
	if !plainName(name) {
		return &Refused{ReasonHost}
	}
	l.names = append(l.names, allowedName{name: name, below: below, port: port})
	return nil
}

// splitPort takes host, host:port, [v6], [v6]:port and a bare v6.
func splitPort(entry string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(entry); err == nil || !strings.Contains(entry, ":") {
		return entry, 0, nil
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]"), 0, nil
	}
	host, p, err := net.SplitHostPort(entry)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return "", 0, &Refused{ReasonPort}
	}
	return host, uint16(n), nil
}

func usualPort(port uint16) bool { return port == 80 || port == 443 }

// byName reports whether the list names the target's host and port.
func (l allowList) byName(to target) bool {
	return slices.ContainsFunc(l.names, func(n allowedName) bool { return n.is(to.name) && portMatches(n.port, to.port) })
}

// is compares with a name in lower case. The dot in front of a suffix keeps evilcorp from being below corp.
func (n allowedName) is(name string) bool {
	if n.below {
		return strings.HasSuffix(name, "."+n.name)
	}
	return name == n.name
}

// byAddress reports whether the list opens the address at the target's port.
func (l allowList) byAddress(to target, addr netip.Addr) bool {
	return slices.ContainsFunc(l.networks, func(n allowedNetwork) bool {
		return n.prefix.Contains(addr) && (n.anyPort || portMatches(n.port, to.port))
	})
}

// atOtherPort reports whether the list has the target as it was written, but not at its port: an entry without a port is for
// 80 and 443 alone. What a name resolved to is not looked at; the reason would disclose it.
func (l allowList) atOtherPort(to target) bool {
	if to.literal.IsValid() {
		return slices.ContainsFunc(l.networks, func(n allowedNetwork) bool { return n.prefix.Contains(to.literal.Unmap()) })
	}
	return !l.byName(to) && slices.ContainsFunc(l.names, func(n allowedName) bool { return n.is(to.name) })
}

// portMatches reports whether an entry is for the port. One without a port is for the two usual ones, so that listing a
// host does not open every service on it.
func portMatches(listed, port uint16) bool {
	return listed == port || listed == 0 && usualPort(port)
}

// judgeName checks a name before it is resolved. A network on the list may still open it, and then the dialer decides:
// so only a list without networks refuses localhost, another port or plain http here.
func (l allowList) judgeName(to target) *Refused {
	switch {
	case l.byName(to):
		return nil
	case localName(to.name) && len(l.networks) == 0 && l.atOtherPort(to):
		return &Refused{ReasonPort}
	case localName(to.name) && len(l.networks) == 0:
		return &Refused{ReasonLoopback}
	case metadataName(to.name):
		return &Refused{ReasonMetadata}
	case !usualPort(to.port) && len(l.networks) == 0:
		return &Refused{ReasonPort}
	case !to.secure && len(l.networks) == 0:
		return &Refused{ReasonPlain}
	}
	return nil
}

// localName reports the names that RFC 6761 reserves for loopback, whatever a resolver answers.
func localName(name string) bool { return name == "localhost" || strings.HasSuffix(name, ".localhost") }

// metadataName reports the names of clouds' metadata services. Their addresses are never opened anyway; the names give
// the reason without asking a resolver.
func metadataName(name string) bool {
	return name == "metadata.google.internal" || name == "metadata.goog" || name == "instance-data"
}

// judge decides whether a call may go to an address. It runs when a URL holds one, after a name was resolved, and once
// more when the socket is about to connect.
func (l allowList) judge(to target, addr netip.Addr) *Refused {
	addr = addr.Unmap() // ::ffff:10.0.0.1 is where 10.0.0.1 is
	reason, by := classify(addr)
	if by == never {
		return &Refused{reason}
	}
	// A name on the list opens nothing for a URL that holds an address.
	byAddress := l.byAddress(to, addr)
	byName := !to.literal.IsValid() && l.byName(to)
	switch {
	case byAddress:
		return nil
	case by == local && !(byName && localName(to.name)),
		by == reserved,
		by == private && !byName:
		if l.atOtherPort(to) {
			reason = ReasonPort
		}
		return &Refused{reason}
	case byName:
		return nil
	case !usualPort(to.port):
		return &Refused{ReasonPort}
	case !to.secure:
		return &Refused{ReasonPlain}
	}
	return nil
}
