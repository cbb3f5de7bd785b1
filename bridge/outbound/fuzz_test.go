package outbound_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"aqueduct/bridge/outbound"
)

// FuzzCheckURL: whatever may be registered where nothing is allow-listed is https at a
// usual port of a plain name or a public address, by net/netip's own account.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"https://a.example/x?y#z", "https://8.8.8.8", "https://[2606:2800::1]:443", "https://[::ffff:8.8.8.8]", "https://[64:ff9b::808:808]",
		"http://127.0.0.1", "https://0x7f.1", "https://a@b", "https://a:22", "https://①.example", "https://[fe80::1%25a]", "https:a", "file:///x",
	} {
		f.Add(seed)
	}
	g, err := outbound.New(outbound.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if g.CheckURL(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Port() != "" && u.Port() != "80" && u.Port() != "443" && strings.TrimLeft(u.Port(), "0") != "80" && strings.TrimLeft(u.Port(), "0") != "443" {
			t.Fatalf("%q may be registered: %+v, %v", raw, u, err)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil {
			if u.Hostname() != strings.Trim(u.Hostname(), ".") || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > 0x7e || r <= ' ' }) {
				t.Fatalf("%q is taken for a name", u.Hostname())
			}
			return
		}
		if addr = addr.Unmap(); !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.Zone() != "" {
			t.Fatalf("%q may be registered", raw)
		}
	})
}
