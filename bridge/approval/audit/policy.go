package audit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/store"
)

// Policy is a change of the policy in force: the hashes of the files. "" is the default, without a file.
type Policy struct {
	Seq    int64     `json:"-"`
	At     time.Time `json:"-"`
	Before string    `json:"before_sha256"`
	After  string    `json:"after_sha256"`
}

// LastPolicy returns the last change of the policy; the zero value where there was none.
func LastPolicy(ctx context.Context, r store.AuditReader) (p Policy, err error) {
	e, err := r.PolicyChanged(ctx, store.System())
	if errors.Is(err, store.ErrNotFound) {
		return Policy{}, nil
	}
	if err == nil && len(e.Payload) > 0 {
		err = json.Unmarshal(e.Payload, &p)
	}
	p.Seq, p.At = e.Seq, e.TS
	return p, err
}

// PolicyInForce records that the policy with a hash is in force, and the rows that notify of it, unless that is the last one on
// record. So a change is recorded once for all replicas, and one that was made while no server ran is recorded at the next
// start.
func PolicyInForce(ctx context.Context, st transactor, sha256 string, rows func(Policy) []store.OutboxItem) error {
	now := time.Now()
	return st.InTx(ctx, func(tx store.Tx) error {
		last, err := LastPolicy(ctx, tx)
		if err != nil || last.After == sha256 {
			return err
		}
		p := Policy{At: now, Before: last.After, After: sha256}
		for _, row := range rows(p) {
			if err := tx.InsertOutbox(ctx, row); err != nil {
				return err
			}
		}
		return AppendAt(ctx, tx, Nobody(AllTenants), PolicyChanged, Subject{store.SubjectPolicy, "in force"}, p, now)
	})
}
