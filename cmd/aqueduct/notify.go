// Who is notified of questions, and channels with callbacks: lists from the settings file, with a file for each
// secret.

package main

import (
	"bytes"
	"fmt"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/bridge/notify"
	"aqueduct/bridge/outbound"
	"aqueduct/internal/app"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decide"
)

// notifyFlags are whom serve notifies of questions. Without --public-url no links are sent: they would lead nowhere.
type notifyFlags struct {
	Channels  channelsFlag `help:"Channels that talk by signed webhooks: a list of id, tenant, secret_file, callback; in the settings file, here YAML." placeholder:"YAML"`
	Webhooks  webhooksFlag `help:"Who is told of questions: a list of name, url, secret_file, tenant, types; in the settings file, here YAML." placeholder:"YAML"`
	PublicURL string       `name:"public-url" help:"Where people reach this server. With it, webhooks carry signed links to decide by, and the URLs of pictures are absolute." placeholder:"URL"`
}

// webhooksFlag is the list.
type webhooksFlag []struct {
	Name       string         `yaml:"name"`
	URL        string         `yaml:"url"`
	SecretFile ownfile.Secret `yaml:"secret_file"`
	Tenant     string         `yaml:"tenant"`
	Types      []string       `yaml:"types"`
}

// Decode implements kong.MapperValue. It reads a list in YAML; see decodeYAML.
func (f *webhooksFlag) Decode(ctx *kong.DecodeContext) error {
	type plain webhooksFlag
	return decodeYAML(ctx, "webhooks", (*plain)(f))
}

// channelsFlag is who talks to /v1/ingress. callback is where the messages of the channel go.
type channelsFlag []struct {
	ID         string         `yaml:"id"`
	Tenant     string         `yaml:"tenant"`
	SecretFile ownfile.Secret `yaml:"secret_file"`
	Callback   string         `yaml:"callback"`
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

// yamlOf is the next setting as YAML. The settings file has been parsed already, so what it holds is written as YAML
// once more.
func yamlOf(ctx *kong.DecodeContext) ([]byte, error) {
	value := ctx.Scan.Pop().Value
	if raw, ok := value.(string); ok {
		return []byte(raw), nil
	}
	return yaml.Marshal(value)
}

// decodeStrict refuses members that are unknown. A misspelled member would otherwise be a webhook without its filter,
// or a channel without its tenant.
func decodeStrict(raw []byte, name string, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// secretOf reads a file that holds a secret.
func secretOf(path ownfile.Secret) (notify.Secret, error) {
	raw, err := secretfile.Read(string(path))
	return notify.Secret(raw), err
}

// channels are those of the settings.
func (f notifyFlags) channels() (channel.Webhooks, error) {
	var hooks channel.Webhooks
	for _, c := range f.Channels {
		secret, err := secretOf(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("channels: %s: %w", c.ID, err)
		}
		hooks = append(hooks, channel.Webhook{ID: c.ID, Tenant: c.Tenant, Secret: secret, Callback: c.Callback})
	}
	return hooks, nil
}

// apply sets whom the server notifies, and how. Without a target none are sent. Links are signed with a key that
// follows from the one of tokens, so that all replicas read them. Redirects are not followed: a target that answers
// with one could send questions to an address that was never allowed.
func (f *notifyFlags) apply(of *app.Config, allow []string, files *stateFlags) error {
	// Channels need the notifier as well: their callbacks are rows of the same outbox.
	hooks, err := f.channels()
	if err != nil || len(f.Webhooks) == 0 && len(hooks) == 0 {
		return err
	}
	// The edge gets the hooks to check what comes in, the notifier below to sign what goes out.
	of.Edge.Webhooks = hooks
	cfg := notify.Config{BaseURL: f.PublicURL, Others: map[string]notify.Address{channel.OutboxKind: hooks.Delivery}}
	for _, w := range f.Webhooks {
		secret, err := secretOf(w.SecretFile)
		if err != nil {
			return fmt.Errorf("webhooks: %s: %w", w.Name, err)
		}
		cfg.Targets = append(cfg.Targets, notify.Target{
			Name: w.Name, URL: w.URL, Secret: secret, Tenant: w.Tenant, Types: w.Types,
		})
	}
	gate, err := outbound.New(outbound.Config{Allow: allow, Limits: outbound.Limits{Redirects: -1}})
	if err != nil {
		return err
	}
	cfg.Client = gate.Client()
	if f.PublicURL != "" {
		signer, err := files.linkSigner()
		if err != nil {
			return err
		}
		cfg.Link, of.Edge.Links = signer.ForNotice, decide.NewBook(signer, of.Store)
	}
	of.Notify = &cfg
	return nil
}

// linkSigner signs with the newest of the keys and knows the older ones. So a rotation of the signing key leaves the
// links in people's mail good while the key before it is kept.
func (f *stateFlags) linkSigner() (*decide.Signer, error) {
	keys, err := auth.LoadKeys(string(f.SigningKeyFile))
	if err != nil {
		return nil, err
	}
	var older [][]byte
	// The list begins with the key that signs.
	for _, key := range keys[1:] {
		older = append(older, []byte(string(key)))
	}
	return decide.NewSigner([]byte(string(keys[0])), older...)
}
