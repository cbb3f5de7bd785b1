package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/notify"
	"aqueduct/internal/secretfile"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// auditFlags are the settings of the audit.
type auditFlags struct {
	AuditKeyFile string `name:"audit-key-file" help:"File with the key that authenticates the audit's entries; made on first use. Beside the SQLite database, or beside the signing key, when not given. Replicas should share it." placeholder:"FILE"`
}

const (
	auditKeyName   = "audit.key"
	auditHeadsName = "audit.heads" // beside the key
	// minAuditKey keeps out what can be found by trying.
	minAuditKey = 32
)

// auditKeyPath is where the key lies when no file is named.
func auditKeyPath(named string, database databaseFlag, signingKey string) string {
	if named != "" {
		return named
	}
	kind, path, _ := strings.Cut(string(database), ":")
	if kind != "sqlite" {
		return filepath.Join(filepath.Dir(signingKey), auditKeyName)
	}
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?")
	return filepath.Join(filepath.Dir(path), auditKeyName)
}

// loadAuditKey reads the key, which it makes on first use.
func loadAuditKey(path string) (store.AuditKey, error) {
	secret, err := secretfile.ReadOrMake(path, func() string { return string(auth.NewKey()) })
	return auditKeyOf(path, secret, err)
}

// readAuditKey reads the key; the zero value, where there is none.
func readAuditKey(path string) (store.AuditKey, error) {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return store.AuditKey{}, nil
	}
	secret, err := secretfile.Read(path)
	return auditKeyOf(path, secret, err)
}

func auditKeyOf(path, secret string, err error) (store.AuditKey, error) {
	if err != nil {
		return store.AuditKey{}, fmt.Errorf("the audit's key: %w", err)
	}
	if len(secret) < minAuditKey {
		return store.AuditKey{}, fmt.Errorf("the audit's key %s must have at least %d characters", path, minAuditKey)
	}
	return store.NewAuditKey([]byte(secret)), nil
}

// auditKeyFile is that of this server.
func (s *serveCmd) auditKeyFile() string {
	return auditKeyPath(s.Audit.AuditKeyFile, s.Database, s.ACP.Key.SigningKeyFile)
}

// openDatabase opens the database with the audit's key, and has the audit say that it is used.
func (s *serveCmd) openDatabase(ctx context.Context) (store.Store, error) {
	key, err := loadAuditKey(s.auditKeyFile())
	if err != nil {
		return nil, err
	}
	st, err := s.Database.openKeyed(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := audit.Begin(ctx, st, key); err != nil {
		_ = st.Close() // the first error is the cause
		return nil, fmt.Errorf("the audit's key: %w", err)
	}
	return st, nil
}

// auditExporter gives the head of the audit to the log, the metrics, a file and the webhooks.
func (s *serveCmd) auditExporter(st store.Store, log *slog.Logger, metrics *server.Metrics, n *notify.Notifier) *audit.Exporter {
	return &audit.Exporter{
		Store: st, Log: log, Gauge: metrics.AuditHead, Kick: n.Kick,
		Rows: func(h audit.Head, now time.Time) []store.OutboxItem { return n.HeadRows(h.Seq, h.Hash, now) },
		File: filepath.Join(filepath.Dir(s.auditKeyFile()), auditHeadsName),
	}
}
