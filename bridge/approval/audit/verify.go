package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aqueduct/store"
)

// Head is where a chain ends. Kept elsewhere, it shows later that nothing was cut off the
// end, which the chain alone cannot.
type Head struct {
	Seq  int64
	Hash string // the whole, or its first minPrefix characters at least
}

// minPrefix is how much of a hash stands for it: a metric has room for that many characters.
const minPrefix = 12

// is reports whether an entry with the hash is this Head.
func (h Head) is(hash string) bool {
	return h.Hash == hash || len(h.Hash) >= minPrefix && strings.HasPrefix(hash, h.Hash)
}

// Broken is where a chain is not what was written.
type Broken struct {
	Seq int64 // the first entry that is not as it was, or is missing
	Why string
}

// Error implements error.
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
	w := &Walk{Known: known}
	err := w.Run(ctx, r)
	return w.Head, err
}

// Walk goes through a chain, on from where it last ended. The fields that a run sets (Head, Keyed, MACs) are where the
// next one goes on, so one Walk may be run again as the chain grows. After *Broken it stays before the entry at fault.
type Walk struct {
	// Known are Heads of before ("" in Hash is no Head): each must still be in the chain.
	Known []Head
	// Keys check the MACs. With any, an entry of another key breaks the chain, and so does one without a MAC at the end:
	// who can write rows but has no key can write a whole chain without MACs. Without, MACs are not checked.
	Keys []store.AuditKey
	// Each is called with every entry that follows; nil for none.
	Each func(store.AuditEntry) error

	Head  Head
	Keyed int64 // the first entry with a MAC; 0: none has one
	MACs  int64 // that were checked
}

// Run walks to the present end.
func (w *Walk) Run(ctx context.Context, r chain) error {
	for {
		page, err := r.Audit(ctx, store.System(), w.Head.Seq, pageSize)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := w.follow(e); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return w.end()
		}
	}
}

// follow checks one entry against the one before it and against what is known of it from elsewhere. The Head moves only
// past an entry that is whole.
func (w *Walk) follow(e store.AuditEntry) error {
	switch {
	case e.Seq != w.Head.Seq+1:
		return &Broken{w.Head.Seq + 1, "the entry is missing"}
	case e.PrevHash != w.Head.Hash:
		return &Broken{e.Seq, "it does not follow the entry before it"}
	case e.Sum() != e.Hash:
		return &Broken{e.Seq, "its content is not what was hashed"}
	}
	for _, k := range w.Known {
		if k.Seq == e.Seq && k.Hash != "" && !k.is(e.Hash) {
			return &Broken{e.Seq, "its hash is not the one that was known"}
		}
	}
	if err := w.checkMAC(e); err != nil {
		return err
	}
	w.Head = Head{e.Seq, e.Hash}
	if w.Each == nil {
		return nil
	}
	return w.Each(e)
}

// checkMAC checks what only the holder of a key can have written. Entries of before the first key have none.
func (w *Walk) checkMAC(e store.AuditEntry) error {
	if e.MAC == "" {
		if w.Keyed > 0 {
			return &Broken{e.Seq, "it has no MAC, and those before it have"}
		}
		return nil
	}
	if w.Keyed == 0 {
		w.Keyed = e.Seq
	}
	if len(w.Keys) == 0 {
		return nil
	}
	id, _, _ := strings.Cut(e.MAC, ":")
	i := slices.IndexFunc(w.Keys, func(k store.AuditKey) bool { return k.ID() == id })
	if i < 0 {
		return &Broken{e.Seq, "its MAC is of another key than those given: " + clean(id)}
	}
	if w.Keys[i].MAC(e.Hash) != e.MAC {
		return &Broken{e.Seq, "its MAC is not of the key it names"}
	}
	w.MACs++
	return nil
}

// clean makes text of a row that is not trusted short and printable, for a message.
func clean(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, id[:min(len(id), 32)])
}

// end checks what only the end of a chain shows.
func (w *Walk) end() error {
	var first int64
	for _, k := range w.Known {
		if k.Hash != "" && k.Seq > w.Head.Seq && (first == 0 || k.Seq < first) {
			first = k.Seq
		}
	}
	switch {
	case first > 0:
		return &Broken{w.Head.Seq + 1, fmt.Sprintf("the chain ends before entry %d, which was known", first)}
	case len(w.Keys) > 0 && w.MACs == 0:
		return &Broken{w.Head.Seq + 1, "no entry has a MAC of the key that was given"}
	}
	return nil
}
