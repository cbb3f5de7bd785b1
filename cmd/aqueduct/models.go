// The upstreams of the model proxy (--models-file, --llm-url), and the agent that comes with the server (--model).

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"aqueduct/bridge/outbound"
	"aqueduct/internal/app"
	"aqueduct/internal/assistant"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/server/llmproxy"
)

// modelFlags name the upstreams.
type modelFlags struct {
	ModelsFile modelsFile     `help:"Upstreams that answer when agents call models through this server; YAML." placeholder:"FILE"`
	LLMURL     string         `name:"llm-url" help:"One such upstream, for the models that the file names none for: a server of OpenAI's API, up to and with /v1." placeholder:"URL"`
	LLMKeyFile ownfile.Secret `name:"llm-key-file" help:"File with the key of --llm-url." placeholder:"FILE"`
	Model      string         `help:"Start the agent \"assistant\", a chat with this model that uses the tools registered here and those of the page." placeholder:"NAME"`
}

// llmName is what the trace calls the upstream of --llm-url.
const llmName = "llm"

// assistantID is what the agent of --model is called.
const assistantID = "assistant"

// modelFirstByte is how long an upstream may take until its answer begins. One that does not stream begins when the model
// has finished.
const modelFirstByte = 15 * time.Minute

// open reads --models-file, and makes the way to its upstreams: their addresses may be private and this machine, for the
// operator named them.
func (f modelFlags) open(log *slog.Logger) (llmproxy.Upstreams, *http.Client, error) {
	if f.ModelsFile == "" && f.LLMURL == "" {
		switch {
		case f.Model != "":
			return llmproxy.Upstreams{}, nil, errors.New("--model: there is no server that has it; name one by --llm-url, or by --models-file")
		case f.LLMKeyFile != "":
			return llmproxy.Upstreams{}, nil, errors.New("--llm-key-file is the key of --llm-url, which is missing")
		}
		return llmproxy.Upstreams{}, nil, nil
	}
	models, err := f.read(secretfile.Read)
	if err != nil {
		return models, nil, err
	}
	if free := models.Unpriced(); len(free) > 0 {
		log.Warn("models without a price cost nothing against the budgets of cost", slog.Any("models", free))
	}
	gate, err := outbound.New(outbound.Config{
		Allow:  append([]string{"127.0.0.0/8", "::1/128"}, models.Hosts()...), // localhost may resolve to either
		Limits: outbound.Limits{FirstByte: modelFirstByte, Total: -1, Body: -1, Redirects: -1},
	})
	if err != nil {
		return models, nil, fmt.Errorf("models: %w", err)
	}
	return models, gate.Client(), nil
}

// read reads what the flags name. The upstream of --llm-url is the last, so it answers for what the file has no other for.
func (f modelFlags) read(readKey func(string) (string, error)) (models llmproxy.Upstreams, err error) {
	if f.ModelsFile != "" {
		raw, err := ownfile.Config(f.ModelsFile).Read()
		if err == nil {
			models, err = llmproxy.Parse(raw, readKey)
		}
		if err != nil {
			return models, fmt.Errorf("--models-file %s: %w", f.ModelsFile, err)
		}
	}
	if f.LLMURL == "" {
		if len(models.Upstreams) == 0 {
			return models, fmt.Errorf("--models-file %s: there is no upstream in it, and no --llm-url", f.ModelsFile)
		}
		return models, nil
	}
	if models, err = models.And(llmproxy.Upstream{Name: llmName, URL: f.LLMURL, KeyFile: f.LLMKeyFile, Models: []string{"*"}}, readKey); err != nil {
		return models, fmt.Errorf("--llm-url: %w", err)
	}
	return models, nil
}

// assistant is the agent of --model; self is where it reaches this server.
func (f modelFlags) assistant(self string, log *slog.Logger) (agentFlag, app.Part) {
	return ownAgent(assistantID, assistant.New(assistant.Config{Model: f.Model, BaseURL: self, Logger: log}))
}
