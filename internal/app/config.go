// This file is what a server is made of, as the program or a test gives it. Files, flags and the environment are read
// before (cmd/aqueduct); defaults are those of each part.

package app

import (
	"log/slog"
	"net/http"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/mcpservers"
	"aqueduct/bridge/notify"
	"aqueduct/bridge/otlp"
	"aqueduct/bridge/queue"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/blob"
)

// Config is what the parts of a server are made of. A member must be set unless its comment names a default.
type Config struct {
	// Store is the database; with Secrets it is one that redact.Wrap made. It stays open when Run has returned.
	Store store.Store
	// Broker carries rings between the goroutines, and where there are several replicas between those. A ring that is lost
	// costs time and nothing else.
	Broker store.Broker
	// Name is the label of the replica: one that starts with it replaces the one before.
	Name   string
	Drain  Drain // the zero value ends work under way at once
	Logger *slog.Logger
	Auth   *auth.Auth // with its registry of credentials, where those can be revoked
	Agents *bridge.Directory
	// Registered is how agents are called that programs register; without a Gate they are at public addresses.
	Registered httpagent.Config

	// Metrics counts for all parts; New takes the meters of its parts from it; that of the gateway comes with its
	// settings.
	Metrics *server.Metrics
	// Meter replaces the engine's part of Metrics; nil leaves it.
	Meter *bridge.Meter

	// Secrets masks what is kept and seals what is executed; the zero value does neither.
	Secrets redact.Hasher
	// Policy decides which permissions need no person; nil is none of them.
	Policy *policy.Holder
	OnBusy string // bridge.OnBusyRefuse when empty
	// PublicURL is where people reach this server; "" is not known.
	PublicURL string
	// AgentURL is where agents reach it; "" gives them paths.
	AgentURL string
	// Limits, QueueLimits and ToolLimits: the zero value of a member is its default.
	Limits      bridge.Limits
	QueueLimits queue.Limits
	ToolLimits  tools.Limits
	// Blobs has what is too large for a row; nil keeps all in rows. ContextBytes bounds the context entries of one user;
	// 0 is a default.
	Blobs        blob.Store
	ContextBytes int64
	// ToolClient calls server tools, and decides which addresses it may reach.
	ToolClient *http.Client
	// MCP names servers whose tools agents may have run; nil is none. New sets its Publish, ResultBytes and Logger.
	MCP *mcpservers.Config
	// AuditHeads is a file that gets the heads of the audit; "" is none.
	AuditHeads string

	// The configurations of single parts. New sets their members that are parts themselves, so they hold settings only.

	// Edge is that of the HTTP edge. Its Store, Logger and Controller stay when they are set.
	Edge server.Config
	// Spans exports what is on record of Turns; nil exports nothing. New sets its Store, Logger, Replica and Count.
	Spans *otlp.Config
	// Gateway links agents behind proxies; nil is no gateway.
	Gateway *acpgateway.Config
	// Notify sends notices and callbacks; nil sends none.
	Notify *notify.Config
}
