package llmproxy

import (
	"slices"
	"strings"
	"testing"

	"aqueduct/internal/costtest"
)

// TestS58RelayIsLinear: what a stream costs grows with its bytes, whatever its events look like and however few bytes come at
// once. If this fails, one answer of a model keeps a processor busy for minutes.
func TestS58RelayIsLinear(t *testing.T) {
	relayed := func(n, at int, text string) {
		a := &answer{meter: &meter{route: routeChat}, stream: true, hide: true}
		for part := range slices.Chunk([]byte(text), at) {
			a.events(part, false)
		}
		a.events(nil, true)
		_ = n
	}
	for what, of := range map[string]func(n int){
		"one event in small reads": func(n int) { relayed(n, 16, "data: "+strings.Repeat("x", 40*n)) },
		"an event that ends late":  func(n int) { relayed(n, 64, "data: "+strings.Repeat("x\n", 20*n)+"\n\n") },
		"events with CRLF":         func(n int) { relayed(n, 1<<30, strings.Repeat("data: [DONE] x\r\n\r\n", n)) },
		"events that seem to end":  func(n int) { relayed(n, 1<<30, strings.Repeat("data: {\"a\":\"[DONE]\"}\n\n", n)) },
		"usages in each event":     func(n int) { relayed(n, 1<<30, strings.Repeat("data: {\"usage\":{\"x\":1}}\n\n", n)) },
		"usages within usages": func(n int) {
			relayed(n, 1<<30, "data: "+strings.Repeat(`{"usage":`, n)+"1"+strings.Repeat("}", n)+"\n\n")
		},
		"usages that are cut":          func(n int) { relayed(n, 1<<30, "data: "+strings.Repeat(`{"usage":{"x":[`, n)+"\n\n") },
		"usages that are no numbers":   func(n int) { relayed(n, 1<<30, "data: "+strings.Repeat(`{"usage":"x",`, n)+"\n\n") },
		"a plain answer, small reads":  func(n int) { plainly(strings.Repeat(`{"usage":{"x":1}} `, n)) },
		"a plain answer of few spaces": func(n int) { plainly(strings.Repeat(" ", n)) },
	} {
		costtest.Grows(t, what, 5000, of)
	}
}

func plainly(text string) {
	a := &answer{meter: &meter{route: routeChat}}
	for part := range slices.Chunk([]byte(text), 512) {
		a.plain(part)
	}
	a.meter.tokens()
}
