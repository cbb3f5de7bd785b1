// This file is the room's door: the configuration, all servers, and the goroutine of each. Which tools there are is
// not known here; a server publishes its own.

package mcpservers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/google/uuid"

	"aqueduct/bridge/tools"
	"aqueduct/internal/child"
	"aqueduct/store"
)

// Server is an MCP server that the operator named: a command or a URL.
type Server struct {
	Name    string
	Command []string // is started here, and speaks over its standard streams
	Pass    []string // names of variables that the command inherits although they look like secrets
	URL     string   // of streamable HTTP
	Token   string   // is sent to the URL as Authorization: Bearer; "" for none
}

// Config is what Servers are made of.
type Config struct {
	Servers []Server
	// Version is this program's; servers get it in the handshake.
	Version string
	// Confine is what the commands are kept from; nil is nothing.
	Confine *child.Confinement
	// Client calls the URLs. It decides which addresses may be reached, and must not bound how long an answer takes.
	Client *http.Client
	// Publish keeps the tools that a server has now (tools.Service.Publish).
	Publish func(ctx context.Context, server string, list []store.Tool) error
	// Changed is called when a server's tools were kept, and when it could not be connected or was lost; nil for none.
	Changed func()
	// ResultBytes is the most that a result may have; 0 is 1 MiB.
	ResultBytes int64
	Logger      *slog.Logger
}

const defaultResultBytes = 1 << 20

// Servers are all MCP servers whose tools agents may have run. It implements tools.Runtime. New alone writes its
// members, so any goroutine may read them.
type Servers struct {
	byName map[string]*server
	named  []Server
	logger *slog.Logger
	epoch  string // begins the marks of the processes of this start
}

// New makes Servers; nothing is started before Run. The error names a server that is named wrongly or twice.
func New(cfg Config) (*Servers, error) {
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.ResultBytes == 0 {
		cfg.ResultBytes = defaultResultBytes
	}
	s := &Servers{byName: make(map[string]*server), named: cfg.Servers, logger: cfg.Logger, epoch: uuid.NewString()}
	for _, of := range cfg.Servers {
		if !ValidName(of.Name) {
			return nil, fmt.Errorf("%q is not a name of an MCP server: it is 1 to 32 letters, digits, underscores or hyphens, and not aqueduct or budget", of.Name)
		}
		if s.byName[of.Name] != nil {
			return nil, fmt.Errorf("there are two MCP servers named %s", of.Name)
		}
		s.byName[of.Name] = newServer(cfg, of, s.epoch)
	}
	return s, nil
}

// ValidName reports whether a name may be a server's. It has no dot: the first dot in the name of a tool ends it. Names that begin
// this server's own tools are not taken.
func ValidName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`).MatchString(name) && !tools.ReservedServer(name)
}

// Names are the servers' names.
func (s *Servers) Names() []string {
	names := make([]string, 0, len(s.named))
	for _, one := range s.named {
		names = append(names, one.Name)
	}
	return names
}

// Await returns when the tools of every server are kept, or it was found that it cannot be connected; at the latest when ctx
// ends.
func (s *Servers) Await(ctx context.Context) {
	for _, one := range s.byName {
		select {
		case <-one.seen:
		case <-ctx.Done():
			return
		}
	}
}

// Run keeps all servers connected until ctx ends. Then it ends the processes that it started, and returns when they are gone.
func (s *Servers) Run(ctx context.Context) error {
	if slices.ContainsFunc(s.named, func(of Server) bool { return len(of.Command) > 0 }) {
		defer child.StartGuard(s.epoch, s.logger).End()
	}
	var all sync.WaitGroup
	for _, one := range s.byName {
		all.Go(func() { one.run(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

var _ tools.Runtime = (*Servers)(nil)
