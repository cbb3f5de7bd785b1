package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/bridge/notify"
	"aqueduct/bridge/notify/link"
	"aqueduct/bridge/outbound"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// notifyFlags are whom serve tells of questions.
type notifyFlags struct {
	Webhooks  webhooksFlag `help:"Who is told of questions: a list of name, url, secret_file, tenant, types; in the settings file, here YAML." placeholder:"YAML"`
	PublicURL string       `name:"public-url" help:"Where people reach this server. With it, webhooks carry signed links to decide by." placeholder:"URL"`
}

// webhooksFlag is the list.
type webhooksFlag []struct {
	Name       string   `yaml:"name"`
	URL        string   `yaml:"url"`
	SecretFile string   `yaml:"secret_file"`
	Tenant     string   `yaml:"tenant"`
	Types      []string `yaml:"types"`
}

// Decode implements kong.MapperValue: a text is YAML, a list is what the settings file has.
func (f *webhooksFlag) Decode(ctx *kong.DecodeContext) error {
	value := ctx.Scan.Pop().Value
	raw, ok := value.(string)
	if !ok {
		out, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		raw = string(out)
	}
	dec := yaml.NewDecoder(bytes.NewReader([]byte(raw)))
	dec.KnownFields(true)
	type plain webhooksFlag
	if err := dec.Decode((*plain)(f)); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// notifier makes who tells others; it tells nobody when nobody is named. Links are signed
// with a key that follows from the one of tokens, so that all replicas read them.
func (s *serveCmd) notifier(st store.Store, log *slog.Logger) (n *notify.Notifier, book *link.Book, err error) {
	if len(s.Notify.Webhooks) == 0 {
		return nil, nil, nil
	}
	cfg := notify.Config{Store: st, BaseURL: s.Notify.PublicURL, Logger: log}
	for _, w := range s.Notify.Webhooks {
		secret, err := os.ReadFile(w.SecretFile)
		if err != nil {
			return nil, nil, fmt.Errorf("webhooks: %s: %w", w.Name, err)
		}
		cfg.Targets = append(cfg.Targets, notify.Target{
			Name: w.Name, URL: w.URL, Secret: notify.Secret(strings.TrimSpace(string(secret))), Tenant: w.Tenant, Types: w.Types,
		})
	}
	gate, err := outbound.New(outbound.Config{Allow: s.Outbound, Limits: outbound.Limits{Redirects: -1}})
	if err != nil {
		return nil, nil, err
	}
	cfg.Client = gate.Client()
	if s.Notify.PublicURL != "" {
		key, err := auth.LoadKey(s.ACP.Key.SigningKeyFile)
		if err != nil {
			return nil, nil, err
		}
		if cfg.Links, err = link.NewSigner([]byte(string(key))); err != nil {
			return nil, nil, err
		}
		book = link.NewBook(cfg.Links, st)
	}
	n, err = notify.New(cfg)
	return n, book, err
}
