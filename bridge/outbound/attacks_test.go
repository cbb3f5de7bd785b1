package outbound_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"aqueduct/bridge/outbound"
)

// TestS22OutboundAddresses runs the classes of attack that S22 names, at least three inputs each. Each is refused when it is
// registered or called, for the right reason, and the inner server gets no connection. The allow-list opens that server's
// port for the names used, so it is the address that decides.
func TestS22OutboundAddresses(t *testing.T) {
	t.Parallel()
	in := newInner(t, secret)
	for class, inputs := range map[string]map[string]outbound.Reason{
		"metadata": {
			"http://169.254.169.254/latest/meta-data/":               outbound.ReasonMetadata,
			"https://[fd00:ec2::254]/latest/":                        outbound.ReasonMetadata,
			"http://metadata.google.internal/computeMetadata/v1/":    outbound.ReasonMetadata,
			"https://169.254.170.2/v2/credentials":                   outbound.ReasonMetadata,
			"https://100.100.100.200/":                               outbound.ReasonMetadata,
			"https://[64:ff9b::a9fe:a9fe]/":                          outbound.ReasonMetadata,
			"https://[::ffff:169.254.169.254]/latest/meta-data/iam/": outbound.ReasonMetadata,
		},
		"localhost": {
			"http://" + in.at("localhost"):      outbound.ReasonLoopback,
			"http://" + in.at("LOCALHOST"):      outbound.ReasonLoopback,
			"http://" + in.at("app.localhost"):  outbound.ReasonLoopback,
			"http://" + in.at("127.0.0.1"):      outbound.ReasonLoopback,
			"http://" + in.at("127.8.9.1"):      outbound.ReasonLoopback,
			"http://" + in.at("[::1]"):          outbound.ReasonLoopback,
			"http://" + in.at("0.0.0.0"):        outbound.ReasonReserved,
			"http://" + in.at("[::]"):           outbound.ReasonReserved,
			"http://" + in.at("localhost."):     outbound.ReasonHost,
			"http://" + in.at("127.0.0.1."):     outbound.ReasonHost,
			"http://" + in.at("inside.example"): outbound.ReasonLoopback,
		},
		"mapped": {
			"http://" + in.at("[::ffff:127.0.0.1]"):             outbound.ReasonLoopback,
			"http://" + in.at("[::ffff:7f00:1]"):                outbound.ReasonLoopback,
			"http://" + in.at("[0:0:0:0:0:ffff:10.0.0.1]"):      outbound.ReasonPrivate,
			"http://" + in.at("[::127.0.0.1]"):                  outbound.ReasonReserved,
			"http://" + in.at("[::ffff:0:127.0.0.1]"):           outbound.ReasonReserved,
			"http://" + in.at("mapped.example"):                 outbound.ReasonLoopback,
			"http://" + in.at("[2001:470:1::5efe:127.0.0.1]"):   outbound.ReasonLoopback,
			"http://" + in.at("[2001:470:1::200:5efe:7f00:1]"):  outbound.ReasonLoopback,
			"http://" + in.at("[2002:7f00:1::]"):                outbound.ReasonReserved,
			"http://" + in.at("[2001:0:4136:e378:8000:0:80ff]"): outbound.ReasonURL,
			"http://" + in.at("[2001:0:102:304::80ff:fffe]"):    outbound.ReasonReserved,
		},
		"nat64": {
			"http://" + in.at("[64:ff9b::7f00:1]"):      outbound.ReasonLoopback,
			"http://" + in.at("[64:ff9b::10.0.0.1]"):    outbound.ReasonPrivate,
			"http://" + in.at("[64:ff9b:1::7f00:1]"):    outbound.ReasonReserved,
			"http://" + in.at("[64:ff9b:1:ffff::1]"):    outbound.ReasonReserved,
			"http://" + in.at("nat64.example"):          outbound.ReasonLoopback,
			"http://" + in.at("[64:ff9b::169.254.1.1]"): outbound.ReasonLinkLocal,
		},
		"decimal": {
			"http://" + in.at("2130706433"):          outbound.ReasonHost,
			"http://" + in.at("0x7f000001"):          outbound.ReasonHost,
			"http://" + in.at("0177.0.0.1"):          outbound.ReasonHost,
			"http://" + in.at("127.1"):               outbound.ReasonHost,
			"http://" + in.at("0x7f.0x0.0x0.0x1"):    outbound.ReasonHost,
			"http://" + in.at("017700000001"):        outbound.ReasonHost,
			"http://" + in.at("127.0.0.1.0x"):        outbound.ReasonHost,
			"http://" + in.at("①②⑦.⓪.⓪.①"):           outbound.ReasonHost,
			"http://" + in.at("127。0。0。1"):           outbound.ReasonHost,
			"http://" + in.at("ｌｏｃａｌｈｏｓｔ"):           outbound.ReasonHost,
			"http://" + in.at("loc\u00adalhost"):     outbound.ReasonHost,
			"http://" + in.at("%6c%6fcalhost"):       outbound.ReasonURL,
			"http://" + in.at("127.0.0.1%2f.a.test"): outbound.ReasonURL,
		},
		"rebinding": { // the names are public ones when they are registered
			"http://" + in.at("turns.example"):     outbound.ReasonLoopback,
			"http://" + in.at("both.example"):      outbound.ReasonLoopback,
			"http://" + in.at("linklocal.example"): outbound.ReasonLinkLocal,
			"http://" + in.at("meta.example"):      outbound.ReasonMetadata,
			"https://private.other.test":           outbound.ReasonPrivate,
			"https://cgnat.other.test":             outbound.ReasonPrivate,
		},
		"file": {
			"file:///etc/passwd":             outbound.ReasonScheme,
			"file://" + in.at("localhost"):   outbound.ReasonScheme,
			"FILE:/etc/passwd":               outbound.ReasonScheme,
			"//" + in.at("localhost"):        outbound.ReasonScheme,
			"unix:///var/run/docker.sock":    outbound.ReasonScheme,
			"jar:http://x.example/a.zip!/b":  outbound.ReasonScheme,
			"data:text/plain,hello":          outbound.ReasonScheme,
			"http:" + in.at("localhost"):     outbound.ReasonURL,
			"http:///" + in.at("localhost"):  outbound.ReasonHost,
			"http:\\\\" + in.at("localhost"): outbound.ReasonURL,
		},
		"gopher": {
			"gopher://" + in.at("127.0.0.1") + "/_GET%20/": outbound.ReasonScheme,
			"dict://" + in.at("127.0.0.1") + "/stat":       outbound.ReasonScheme,
			"ftp://" + in.at("127.0.0.1") + "/":            outbound.ReasonScheme,
			"ldap://" + in.at("127.0.0.1") + "/":           outbound.ReasonScheme,
		},
		"userinfo": {
			"http://good.example@" + in.at("127.0.0.1"):     outbound.ReasonUserinfo,
			"https://user:password@good.example/":           outbound.ReasonUserinfo,
			"http://good.example:80@" + in.at("localhost"):  outbound.ReasonUserinfo,
			"http://@" + in.at("127.0.0.1"):                 outbound.ReasonUserinfo,
			"http://" + in.at("127.0.0.1") + "\\@good.test": outbound.ReasonURL,
		},
		"port": {
			"https://good.example:22":     outbound.ReasonPort,
			"https://93.184.215.14:6379":  outbound.ReasonPort,
			"https://good.example:65536":  outbound.ReasonPort,
			"https://good.example:0":      outbound.ReasonPort,
			"https://good.example:-1":     outbound.ReasonURL,
			"https://good.example:8443":   outbound.ReasonPort,
			"http://good.example":         outbound.ReasonPlain,
			"http://93.184.215.14":        outbound.ReasonPlain,
			"https://[2606:2800::1]:5432": outbound.ReasonPort,
		},
		"networks": {
			"https://10.1.2.3":          outbound.ReasonPrivate,
			"https://172.16.0.1":        outbound.ReasonPrivate,
			"https://192.168.1.1":       outbound.ReasonPrivate,
			"https://100.64.0.1":        outbound.ReasonPrivate,
			"https://[fd12:3456::1]":    outbound.ReasonPrivate,
			"https://169.254.1.1":       outbound.ReasonLinkLocal,
			"https://[fe80::1]":         outbound.ReasonLinkLocal,
			"https://[fe80::1%25eth0]":  outbound.ReasonLinkLocal,
			"https://224.0.0.1":         outbound.ReasonReserved,
			"https://[ff02::1]":         outbound.ReasonReserved,
			"https://255.255.255.255":   outbound.ReasonReserved,
			"https://192.0.2.1":         outbound.ReasonReserved,
			"https://[2001:db8::1]":     outbound.ReasonReserved,
			"https://[fec0::1]":         outbound.ReasonReserved,
			"https://240.0.0.1":         outbound.ReasonReserved,
			"https://198.18.0.1":        outbound.ReasonReserved,
			"https://0.1.2.3":           outbound.ReasonReserved,
			"https://[100::1]":          outbound.ReasonReserved,
			"https://[2620:4f:8000::1]": outbound.ReasonReserved,
		},
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, outbound.Config{
				Allow: []string{in.at("inside.example"), in.at("mapped.example"), in.at("nat64.example"), in.at("turns.example"),
					in.at("both.example"), in.at("linklocal.example"), in.at("meta.example")},
				Lookup: names(map[string]string{
					"localhost": "127.0.0.1", "app.localhost": "127.0.0.1", "inside.example": "127.0.0.1",
					"mapped.example": "::ffff:127.0.0.1", "nat64.example": "64:ff9b::7f00:1", "turns.example": "127.0.0.1",
					"both.example": "93.184.215.14 127.0.0.1", "linklocal.example": "169.254.1.1",
					"meta.example": "169.254.169.254", "private.other.test": "10.0.0.1", "cgnat.other.test": "100.64.1.1",
					"good.example": "93.184.215.14",
				}),
			})
			for url, want := range inputs {
				if got := get(t, g, url); got != want && want != outbound.ReasonURL {
					t.Errorf("calling %s: %q, want %q", url, got, want)
				}
				err := g.CheckURL(url)
				if err == nil {
					if !strings.Contains(url, ".example") && !strings.Contains(url, ".other.") {
						t.Errorf("%s may be registered", url)
					}
				} else if got := reason(t, err); got != want {
					t.Errorf("registering %s: %q, want %q", url, got, want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := in.conns.Load(); n != 0 {
			t.Errorf("%d connections came through", n)
		}
	})
}

// TestRedirectInside: where a redirect leads is checked like any address.
func TestRedirectInside(t *testing.T) {
	t.Parallel()
	in := newInner(t, secret)
	for to, want := range map[string]outbound.Reason{
		"http://" + in.at("127.0.0.1") + "/":          outbound.ReasonPort,
		"http://" + in.at("localhost") + "/":          outbound.ReasonLoopback,
		"http://" + in.at("[::ffff:127.0.0.1]") + "/": outbound.ReasonPort,
		"http://" + in.at("2130706433") + "/":         outbound.ReasonHost,
		"http://169.254.169.254/":                     outbound.ReasonMetadata,
		"file:///etc/passwd":                          outbound.ReasonScheme,
		"gopher://" + in.at("127.0.0.1"):              outbound.ReasonScheme,
		"http://user@" + in.at("127.0.0.1") + "/":     outbound.ReasonUserinfo,
		"//" + in.at("127.0.0.1") + "/":               outbound.ReasonPort,
		"https://good.example:22/":                    outbound.ReasonPort,
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{301, 302, 303, 307, 308} {
				door := newInner(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				})
				g := newGate(t, outbound.Config{
					Allow:  []string{door.at("127.0.0.1")},
					Lookup: names(map[string]string{"localhost": "127.0.0.1", "good.example": "93.184.215.14"}),
				})
				if got := get(t, g, door.URL); got != want {
					t.Errorf("%d: %q, want %q", status, got, want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := in.conns.Load(); n != 0 {
			t.Errorf("%d connections came through", n)
		}
	})
}

// TestRebinding: a name is resolved once a connection, and what was judged is what is
// connected to, however the name turns.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"127.0.0.2", "169.254.169.254", "::1"} {
		in := newInner(t, secret)
		var asked atomic.Int64
		g := newGate(t, outbound.Config{
			Allow: []string{in.at("turns.example"), in.at("127.0.0.1")},
			Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
				if asked.Add(1) == 1 {
					return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
				}
				return []netip.Addr{netip.MustParseAddr(then)}, nil
			},
		})
		if got := get(t, g, "http://"+in.at("turns.example")); got != "" || asked.Load() != 1 || in.conns.Load() != 1 {
			t.Fatalf("%q after %d lookups and %d connections", got, asked.Load(), in.conns.Load())
		}
		g.Close()
		if got := get(t, g, "http://"+in.at("turns.example")); got == "" || in.conns.Load() != 1 {
			t.Errorf("turned to %s: %q, %d connections", then, got, in.conns.Load())
		}
	}
}

// TestControl: the last word is spoken about what the kernel is asked to connect to.
func TestControl(t *testing.T) {
	t.Parallel()
	g := newGate(t, outbound.Config{Allow: []string{"a.corp:8080"}})
	control := g.Control("a.corp", 8080)
	for address, want := range map[string]outbound.Reason{
		"10.0.0.1:8080": "", "93.184.215.14:8080": "",
		"127.0.0.1:8080": outbound.ReasonLoopback, "[::ffff:127.0.0.1]:8080": outbound.ReasonLoopback,
		"169.254.169.254:8080": outbound.ReasonMetadata, "10.0.0.1:22": outbound.ReasonURL,
		"[fe80::1%eth0]:8080": outbound.ReasonURL, "/var/run/docker.sock": outbound.ReasonURL,
	} {
		if got := reason(t, control("tcp", address, nil)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
