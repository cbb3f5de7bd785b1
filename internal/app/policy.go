package app

import (
	"context"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// PolicyInForce records in the audit, for webhooks and for inboxes that the policy with a hash is in force; "" is the default.
func (a *App) PolicyInForce(ctx context.Context, sha256 string) error {
	rows := func(p audit.Policy) []store.OutboxItem { return a.Notifier.PolicyRows(p.Before, p.After, p.At) }
	if err := audit.PolicyInForce(ctx, a.cfg.Store, sha256, rows); err != nil {
		return err
	}
	a.Notifier.Kick()
	return nil
}
