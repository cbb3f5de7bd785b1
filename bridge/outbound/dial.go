package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// dialer connects for one of the Gate's transports. It resolves the name itself and
// connects to the addresses it has judged, so a name that resolves differently a moment
// later (DNS rebinding) gains nothing.
type dialer struct {
	gate   *Gate
	secure bool
}

// dial is a transport's DialContext. The address was a URL's, which RoundTrip has checked; it is read again here rather
// than trusted, because this is the one place that every connection passes.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Refused{ReasonURL}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &Refused{ReasonPort}
	}
	to := target{secure: d.secure, port: uint16(n)}
	if refused := to.setHost(host); refused != nil {
		return nil, refused
	}
	if d.gate.limits.Connect > 0 { // resolving included
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.gate.limits.Connect)
		defer cancel()
	}
	addrs, err := d.resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	return d.connect(ctx, network, to, addrs)
}

// resolve finds the addresses. One that is refused refuses them all: a name with a public
// and a private address is one that is being turned.
func (d *dialer) resolve(ctx context.Context, to target) ([]netip.Addr, error) {
	addrs := []netip.Addr{to.literal}
	if !to.literal.IsValid() {
		var err error
		if addrs, err = d.gate.lookup(ctx, "ip", to.name); err != nil {
			return nil, err
		}
	}
	for _, addr := range addrs {
		if refused := d.gate.allow.judge(to, addr); refused != nil {
			return nil, refused
		}
	}
	return addrs, nil
}

// connect tries one address after the other, without RFC 8305's race between them. The error is the last address's, or
// that there is none. A refusal ends it, since the addresses were judged as one.
func (d *dialer) connect(ctx context.Context, network string, to target, addrs []netip.Addr) (net.Conn, error) {
	socket := &net.Dialer{Control: d.control(to)}
	err := error(&net.DNSError{Err: "no address", Name: to.name, IsNotFound: true})
	for _, addr := range addrs {
		var conn net.Conn
		if conn, err = socket.DialContext(ctx, network, netip.AddrPortFrom(addr.Unmap(), to.port).String()); err == nil {
			return conn, nil
		}
		if refused, ok := errors.AsType[*Refused](err); ok {
			return nil, refused
		}
	}
	return nil, err
}

// control checks the address that the socket is about to connect to, whatever led there.
func (d *dialer) control(to target) func(string, string, syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || at.Port() != to.port || at.Addr().Zone() != "" {
			return &Refused{ReasonURL}
		}
		if refused := d.gate.allow.judge(to, at.Addr()); refused != nil {
			return refused
		}
		return nil
	}
}
