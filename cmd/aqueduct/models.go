// The upstreams of the model proxy (--models-file).

package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"aqueduct/bridge/outbound"
	"aqueduct/internal/secretfile"
	"aqueduct/server/llmproxy"
)

// modelFlags name the upstreams.
type modelFlags struct {
	ModelsFile string `help:"Upstreams that answer when agents call models through this server; YAML." placeholder:"FILE"`
}

// modelFirstByte is how long an upstream may take until its answer begins. One that does not stream begins when the model
// has finished.
const modelFirstByte = 15 * time.Minute

// open reads --models-file, and makes the way to its upstreams: their addresses may be private and this machine, for the
// operator named them.
func (f modelFlags) open() (llmproxy.Upstreams, *http.Client, error) {
	if f.ModelsFile == "" {
		return llmproxy.Upstreams{}, nil, nil
	}
	models, err := f.read(secretfile.Read)
	if err != nil {
		return models, nil, fmt.Errorf("--models-file %s: %w", f.ModelsFile, err)
	}
	gate, err := outbound.New(outbound.Config{
		Allow:  append([]string{"127.0.0.0/8", "::1/128"}, models.Hosts()...), // localhost may resolve to either
		Limits: outbound.Limits{FirstByte: modelFirstByte, Total: -1, Body: -1, Redirects: -1},
	})
	if err != nil {
		return models, nil, fmt.Errorf("--models-file %s: %w", f.ModelsFile, err)
	}
	return models, gate.Client(), nil
}

func (f modelFlags) read(readKey func(string) (string, error)) (llmproxy.Upstreams, error) {
	raw, err := os.ReadFile(f.ModelsFile)
	if err != nil {
		return llmproxy.Upstreams{}, err
	}
	return llmproxy.Parse(raw, readKey)
}

// secrets are the files with the upstreams' keys, which the agents of this machine must not be able to read. A file that cannot be read ends the start elsewhere.
func (f modelFlags) secrets() (list []string) {
	if f.ModelsFile == "" {
		return nil
	}
	models, err := f.read(func(string) (string, error) { return "", nil })
	if err != nil {
		return nil
	}
	for _, up := range models.Upstreams {
		if up.KeyFile != "" {
			list = append(list, up.KeyFile)
		}
	}
	return list
}
