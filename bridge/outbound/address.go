package outbound

import "net/netip"

// opening is how an address is opened: what the operator's list has to hold for it, from nothing to what no entry can
// do.
type opening int

const (
	public   opening = iota // open
	private                 // by a name or an address on the list
	local                   // by an address, or localhost, on the list
	reserved                // by an address on the list
	never
)

// special is a network that is not the public Internet.
type special struct {
	prefix netip.Prefix
	reason Reason
	by     opening
}

// specials are IANA's special-purpose registries and the metadata services of clouds, the
// narrower before the wider.
func specials() []special {
	p := netip.MustParsePrefix
	return []special{
		{p("169.254.169.254/32"), ReasonMetadata, never}, // AWS, Azure, Google, OpenStack
		{p("169.254.169.253/32"), ReasonMetadata, never}, // AWS DNS
		{p("169.254.170.2/32"), ReasonMetadata, never},   // AWS ECS task credentials
		{p("169.254.170.23/32"), ReasonMetadata, never},  // AWS EKS pod identity
		{p("169.254.0.23/32"), ReasonMetadata, never},    // Tencent
		{p("100.100.100.200/32"), ReasonMetadata, never}, // Alibaba
		{p("192.0.0.192/32"), ReasonMetadata, never},     // Oracle
		{p("168.63.129.16/32"), ReasonMetadata, never},   // Azure's wire server, a public address
		{p("fd00:ec2::254/128"), ReasonMetadata, never},  // AWS
		{p("fd00:ec2::23/128"), ReasonMetadata, never},   // AWS EKS pod identity
		{p("fd00:c1::a9fe:a9fe/128"), ReasonMetadata, never},
		{p("fd20:ce::254/128"), ReasonMetadata, never}, // Google

		{p("0.0.0.0/8"), ReasonReserved, never}, // "this host": Linux takes 0.0.0.0 for loopback
		{p("224.0.0.0/4"), ReasonReserved, never},
		{p("255.255.255.255/32"), ReasonReserved, never},
		{p("::/128"), ReasonReserved, never},
		{p("ff00::/8"), ReasonReserved, never},

		{p("127.0.0.0/8"), ReasonLoopback, local},
		{p("::1/128"), ReasonLoopback, local},

		{p("10.0.0.0/8"), ReasonPrivate, private},
		{p("172.16.0.0/12"), ReasonPrivate, private},
		{p("192.168.0.0/16"), ReasonPrivate, private},
		{p("100.64.0.0/10"), ReasonPrivate, private}, // carrier-grade NAT
		{p("fc00::/7"), ReasonPrivate, private},

		{p("169.254.0.0/16"), ReasonLinkLocal, reserved},
		{p("fe80::/10"), ReasonLinkLocal, reserved},

		{p("192.0.0.0/24"), ReasonReserved, reserved},
		{p("192.0.2.0/24"), ReasonReserved, reserved},    // documentation
		{p("198.51.100.0/24"), ReasonReserved, reserved}, // documentation
		{p("203.0.113.0/24"), ReasonReserved, reserved},  // documentation
		{p("192.31.196.0/24"), ReasonReserved, reserved},
		{p("192.52.193.0/24"), ReasonReserved, reserved},
		{p("192.88.99.0/24"), ReasonReserved, reserved}, // 6to4 relays
		{p("192.175.48.0/24"), ReasonReserved, reserved},
		{p("198.18.0.0/15"), ReasonReserved, reserved}, // benchmarks
		{p("240.0.0.0/4"), ReasonReserved, reserved},

		{p("2001::/23"), ReasonReserved, reserved},     // Teredo, ORCHID, benchmarks
		{p("2001:db8::/32"), ReasonReserved, reserved}, // documentation
		{p("2002::/16"), ReasonReserved, reserved},     // 6to4: leads to the IPv4 address inside
		{p("2620:4f:8000::/48"), ReasonReserved, reserved},
		{p("3fff::/20"), ReasonReserved, reserved}, // documentation
	}
}

const (
	globalUnicast = "2000::/3"
	nat64         = "64:ff9b::/96" // RFC 6052's well-known prefix
)

func within(network string, addr netip.Addr) bool {
	return netip.MustParsePrefix(network).Contains(addr)
}

// classify finds what may open an address. Of IPv6 everything outside global unicast is
// reserved: the deprecated ::a.b.c.d, NAT64 for local use (64:ff9b:1::/48), the discard
// prefix, site-local addresses, whatever is assigned next.
func classify(addr netip.Addr) (Reason, opening) {
	if inner, ok := embedded(addr); ok { // once: what is embedded is an IPv4 address
		reason, by := classify(inner)
		if by == public {
			return "", public
		}
		// Opened, if at all, under the address's plain spelling.
		return reason, never
	}
	for _, s := range specials() {
		if s.prefix.Contains(addr) {
			return s.reason, s.by
		}
	}
	if addr.Is6() && !within(globalUnicast, addr) {
		return ReasonReserved, reserved
	}
	return "", public
}

// embedded is the IPv4 address a router would take out of an IPv6 one: NAT64 under its
// well-known prefix, and ISATAP. 6to4 and Teredo are refused whatever they hold.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return addr, false
	}
	b := addr.As16()
	isatap := b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
	if within(nat64, addr) || isatap && within(globalUnicast, addr) {
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return addr, false
}
