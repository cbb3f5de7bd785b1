package audit

import (
	"context"
	"net"
	"net/netip"
)

// remoteKey is the key of the address in a context; no other package can set it but by WithRemote.
type remoteKey struct{}

// WithRemote keeps the address of the peer that a request came from, for the entries written on its behalf.
func WithRemote(ctx context.Context, remoteAddr string) context.Context {
	return context.WithValue(ctx, remoteKey{}, peerOf(remoteAddr))
}

// Remote is the address of WithRemote; "" outside a request.
func Remote(ctx context.Context) string {
	addr, _ := ctx.Value(remoteKey{}).(string)
	return addr
}

// peerOf is the host of a peer's address. A port means nothing later, and a socket file has no address.
func peerOf(remoteAddr string) string {
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		host = remoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "local"
	}
	return addr.Unmap().WithZone("").String()
}

// network is what one attacker can be expected to own of addresses: one of IPv4, a /64 of IPv6. Refused attempts are
// counted by it.
func network(addr string) string {
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Is4() {
		return addr
	}
	p, _ := a.Prefix(64) // 64 is a length that every IPv6 address has
	return p.String()
}
