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
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// notifyFlags are whom serve tells of questions.
type notifyFlags struct {
	Channels  channelsFlag `help:"Channels that talk by signed webhooks: a list of id, tenant, secret_file, callback; in the settings file, here YAML." placeholder:"YAML"`
	Webhooks  webhooksFlag `help:"Who is told of questions: a list of name, url, secret_file, tenant, types; in the settings file, here YAML." placeholder:"YAML"`
	PublicURL string       `name:"public-url" help:"Where people reach this server. With it, webhooks carry signed links to decide by, and the URLs of pictures are absolute." placeholder:"URL"`
}

// webhooksFlag is the list.
type webhooksFlag []struct {
	Name       string   `yaml:"name"`
	URL        string   `yaml:"url"`
	SecretFile string   `yaml:"secret_file"`
	Tenant     string   `yaml:"tenant"`
	Types      []string `yaml:"types"`
}

// Decode implements kong.MapperValue.
func (f *webhooksFlag) Decode(ctx *kong.DecodeContext) error {
	type plain webhooksFlag
	return decodeYAML(ctx, "webhooks", (*plain)(f))
}

// channelsFlag is who talks to /v1/ingress.
type channelsFlag []struct {
	ID         string `yaml:"id"`
	Tenant     string `yaml:"tenant"`
	SecretFile string `yaml:"secret_file"`
	Callback   string `yaml:"callback"`
}

// Decode implements kong.MapperValue.
func (f *channelsFlag) Decode(ctx *kong.DecodeContext) error {
	type plain channelsFlag
	return decodeYAML(ctx, "channels", (*plain)(f))
}

// decodeYAML reads a setting that is no single value: on the command line a text in YAML, in
// the settings file what stands there.
func decodeYAML(ctx *kong.DecodeContext, name string, into any) error {
	raw, err := yamlOf(ctx)
	if err != nil {
		return err
	}
	return decodeStrict(raw, name, into)
}

// yamlOf is the next setting as YAML.
func yamlOf(ctx *kong.DecodeContext) ([]byte, error) {
	value := ctx.Scan.Pop().Value
	if raw, ok := value.(string); ok {
		return []byte(raw), nil
	}
	return yaml.Marshal(value)
}

// decodeStrict refuses members that are unknown.
func decodeStrict(raw []byte, name string, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// secretOf reads a file that holds a secret.
func secretOf(path string) (notify.Secret, error) {
	raw, err := os.ReadFile(path)
	return notify.Secret(strings.TrimSpace(string(raw))), err
}

// channels are those of the settings.
func (f notifyFlags) channels() (server.Webhooks, error) {
	var hooks server.Webhooks
	for _, c := range f.Channels {
		secret, err := secretOf(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("channels: %s: %w", c.ID, err)
		}
		hooks = append(hooks, server.Webhook{ID: c.ID, Tenant: c.Tenant, Secret: secret, Callback: c.Callback})
	}
	return hooks, nil
}

// notifier makes who tells others; it tells nobody when nobody is named. Links are signed
// with a key that follows from the one of tokens, so that all replicas read them.
func (s *serveCmd) notifier(st store.Store, log *slog.Logger, hooks server.Webhooks) (n *notify.Notifier, book *link.Book, err error) {
	if len(s.Notify.Webhooks) == 0 && len(hooks) == 0 {
		return nil, nil, nil
	}
	cfg := notify.Config{
		Store: st, BaseURL: s.Notify.PublicURL, Logger: log, Others: map[string]notify.Address{server.OutboxIngress: hooks.Letter},
	}
	for _, w := range s.Notify.Webhooks {
		secret, err := secretOf(w.SecretFile)
		if err != nil {
			return nil, nil, fmt.Errorf("webhooks: %s: %w", w.Name, err)
		}
		cfg.Targets = append(cfg.Targets, notify.Target{
			Name: w.Name, URL: w.URL, Secret: secret, Tenant: w.Tenant, Types: w.Types,
		})
	}
	gate, err := outbound.New(outbound.Config{Allow: s.Outbound, Limits: outbound.Limits{Redirects: -1}})
	if err != nil {
		return nil, nil, err
	}
	cfg.Client = gate.Client()
	if s.Notify.PublicURL != "" {
		keys, err := auth.LoadKeys(s.ACP.Key.SigningKeyFile)
		if err != nil {
			return nil, nil, err
		}
		var older [][]byte
		for _, key := range keys[1:] {
			older = append(older, []byte(string(key)))
		}
		if cfg.Links, err = link.NewSigner([]byte(string(keys[0])), older...); err != nil {
			return nil, nil, err
		}
		book = link.NewBook(cfg.Links, st)
	}
	n, err = notify.New(cfg)
	return n, book, err
}
