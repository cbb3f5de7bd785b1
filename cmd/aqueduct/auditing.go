// The key of the audit's MACs, and the database opened with it. The key lies outside of the database on purpose: who
// can write rows must not be able to authenticate them.

package main

import (
	"fmt"
	"os"

	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// auditFlags are the settings of the audit.
type auditFlags struct {
	AuditKeyFile ownfile.Secret `name:"audit-key-file" help:"File with the key that authenticates the audit's entries; made on first use. audit.key in the state folder when not given. Replicas should share it." placeholder:"FILE"`
}

const (
	auditKeyName   = "audit.key"
	auditHeadsName = "audit.heads" // beside the key
	// minAuditKey keeps out what can be found by trying.
	minAuditKey = 32
)

// loadAuditKey reads the key, which it makes on first use. It is for serve, which writes entries.
func loadAuditKey(path string) (store.AuditKey, error) {
	secret, err := secretfile.ReadOrMake(path, func() string { return string(auth.NewKey()) })
	return auditKeyOf(path, secret, err)
}

// readAuditKey reads the key; the zero value, where there is none. It is for commands that only check, and must not
// make a key by looking for one.
func readAuditKey(path string) (store.AuditKey, error) {
	// Any other error is left to Read, which names it: a key that is there and cannot be read is not a missing one.
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return store.AuditKey{}, nil
	}
	secret, err := secretfile.Read(path)
	return auditKeyOf(path, secret, err)
}

// auditKeyOf makes the key of what was read, or passes the error on with a name to it.
func auditKeyOf(path, secret string, err error) (store.AuditKey, error) {
	if err != nil {
		return store.AuditKey{}, fmt.Errorf("the audit's key: %w", err)
	}
	if len(secret) < minAuditKey {
		return store.AuditKey{}, fmt.Errorf("the audit's key %s must have at least %d characters", path, minAuditKey)
	}
	return store.NewAuditKey([]byte(secret)), nil
}
