package audit

import (
	"context"
	"fmt"

	"aqueduct/store"
)

// Head is where a chain ends. Kept elsewhere, it shows later that nothing was cut off the
// end, which the chain alone cannot.
type Head struct {
	Seq  int64
	Hash string
}

// Broken is where a chain is not what was written.
type Broken struct {
	Seq int64 // the first entry that is not as it was, or is missing
	Why string
}

func (b *Broken) Error() string { return fmt.Sprintf("audit: broken at %d: %s", b.Seq, b.Why) }

// chain is what Verify reads of a store.
type chain interface {
	Audit(ctx context.Context, in store.Scope, afterSeq int64, limit int) ([]store.AuditEntry, error)
}

// pageSize bounds what is held at a time.
const pageSize = store.MaxPageLimit

// Verify walks the whole chain and returns its end; *Broken when something was done to it.
// known are Heads of before ("" in Hash is no Head): each must still be in the chain.
func Verify(ctx context.Context, r chain, known ...Head) (Head, error) {
	expected := make(map[int64]string, len(known))
	for _, k := range known {
		if k.Hash != "" {
			expected[k.Seq] = k.Hash
		}
	}
	var head Head
	for {
		page, err := r.Audit(ctx, store.System(), head.Seq, pageSize)
		if err != nil {
			return head, err
		}
		for _, e := range page {
			if err := follows(head, e, expected); err != nil {
				return head, err
			}
			delete(expected, e.Seq)
			head = Head{e.Seq, e.Hash}
		}
		if len(page) < pageSize {
			return head, missing(head, expected)
		}
	}
}

func follows(head Head, e store.AuditEntry, expected map[int64]string) error {
	want, known := expected[e.Seq]
	switch {
	case e.Seq != head.Seq+1:
		return &Broken{head.Seq + 1, "the entry is missing"}
	case e.PrevHash != head.Hash:
		return &Broken{e.Seq, "it does not follow the entry before it"}
	case e.Sum() != e.Hash:
		return &Broken{e.Seq, "its content is not what was hashed"}
	case known && want != e.Hash:
		return &Broken{e.Seq, "its hash is not the one that was known"}
	}
	return nil
}

// missing names the first of the known Heads the chain does not reach.
func missing(head Head, expected map[int64]string) error {
	var first int64
	for seq := range expected {
		if first == 0 || seq < first {
			first = seq
		}
	}
	if first == 0 {
		return nil
	}
	return &Broken{head.Seq + 1, fmt.Sprintf("the chain ends before entry %d, which was known", first)}
}
