// Spans for a collector of OpenTelemetry.

package main

import (
	"fmt"
	"net/url"

	"aqueduct/bridge/otlp"
	"aqueduct/bridge/outbound"
)

// spanFlags are where spans go.
type spanFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" help:"Collector that gets the spans of turns by OTLP over HTTP, such as http://127.0.0.1:4318. Headers for it are those of OTEL_EXPORTER_OTLP_HEADERS." placeholder:"URL"`
}

// config is that of the exporter; nil without a collector. The collector is the operator's, wherever it is, and nothing
// else may be reached through its client.
func (f *spanFlags) config(insecure bool) (*otlp.Config, error) {
	if f.OTLPEndpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(f.OTLPEndpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("--otlp-endpoint: %q is not a URL", f.OTLPEndpoint)
	}
	if err := checkFar("--otlp-endpoint", f.OTLPEndpoint, insecure); err != nil {
		return nil, err
	}
	// localhost may resolve to either loopback address. A redirect is the answer: it would take the spans, and a credential in a
	// header of its own, elsewhere.
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8", "::1/128", u.Host}, Limits: outbound.Limits{Redirects: -1}})
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return &otlp.Config{Endpoint: f.OTLPEndpoint, Client: gate.Client(), Version: version()}, nil
}
