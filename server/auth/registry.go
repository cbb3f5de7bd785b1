// This file checks credentials for revocation and ends what was opened with revoked ones. Requests
// that write ask the store. Reads, which are many, use answers of the last seconds. Open streams and
// sockets are looked at every watchTime.

package auth

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"aqueduct/store"
)

const (
	// checkTime is how long the answer that a credential is not revoked is used for requests that
	// only read. Requests that write are checked with the store.
	checkTime = 2 * time.Second
	// watchTime is how often open streams and sockets are checked. A revocation ends them within this
	// time and that of one query, on every replica.
	watchTime = 3 * time.Second
	// mostChecked bounds the answers that are remembered.
	mostChecked = 8192
	// useTime is how exact the last use of a credential is kept: one that is used all the time costs
	// one write in this time.
	useTime = time.Minute
	// dropTime is how long credentials are listed after they have expired.
	dropTime = 30 * 24 * time.Hour
	// dropEvery is how often they are looked for.
	dropEvery = time.Hour
	// dropTickets is how often used tickets are forgotten, and how long after their end: a session can use as many as it sends
	// requests, and the clocks of replicas differ by less.
	dropTickets = time.Minute
)

// Credentials is the part of a store that a Registry needs. It is the store without what auth must not touch.
type Credentials interface {
	store.CredentialReader
	InTx(ctx context.Context, fn func(store.Tx) error) error
}

// Registry knows the credentials of an installation: it keeps each when it is first used, refuses
// those that are revoked, and ends what was opened with them. A nil Registry keeps and revokes nothing.
// Its methods are called by every request; mu guards the maps and is never held during a query. Run
// is its one goroutine and ends with its context. Each map is bounded by mostChecked, except links,
// which open connections bound.
type Registry struct {
	store Credentials
	log   *slog.Logger

	mu      sync.Mutex
	checked map[string]check
	links   map[string]map[*link]struct{} // open streams and sockets, by credential
	used    map[string]time.Time          // credentials to write the use of
	written map[string]time.Time          // when the use of a credential was last written
	dropped time.Time                     // when expired credentials were last looked for
	tickets time.Time                     // when used tickets were last forgotten
}

// check is the store's result for a credential.
type check struct {
	at         time.Time
	credential store.Credential
}

// link is one open stream or socket.
type link struct {
	end  context.CancelCauseFunc
	good func() bool // false once the key that signed the credential is retired
}

// NewRegistry makes a Registry; Run must be running for open streams to be ended.
func NewRegistry(st Credentials, log *slog.Logger) *Registry {
	return &Registry{
		store: st, log: log, checked: make(map[string]check), links: make(map[string]map[*link]struct{}),
		used: make(map[string]time.Time), written: make(map[string]time.Time),
	}
}

// Admit lets a verified credential pass, or is ErrTokenRevoked. It asks the store.
func (r *Registry) Admit(ctx context.Context, c store.Credential) error { return r.admit(ctx, c, true) }

// Made keeps a credential that was made for the bearer of another one, which may be "", so that it is listed before its
// first use and ends with that other one.
func (r *Registry) Made(ctx context.Context, c store.Credential, by string) error {
	if r == nil {
		return nil
	}
	c.Parent = by
	return r.open(ctx, c)
}

// admit lets a verified credential pass, or is ErrTokenRevoked. fresh asks the store in any case. An error of the
// store refuses the request: a credential that may be revoked does not pass unchecked.
func (r *Registry) admit(ctx context.Context, c store.Credential, fresh bool) error {
	if r == nil || c.ID == "" {
		return nil
	}
	now := time.Now()
	r.mu.Lock()
	known, ok := r.checked[c.ID]
	r.mu.Unlock()
	if fresh || !ok || now.Sub(known.at) > checkTime {
		kept, err := r.look(ctx, c)
		if err != nil {
			return err
		}
		known = check{now, kept}
		r.remember(known)
	}
	if !known.credential.RevokedAt.IsZero() {
		return ErrTokenRevoked
	}
	r.note(c.ID, now)
	return nil
}

// look reads what is kept of a credential, and keeps it when nothing is. The credential of a session
// is as revoked as that of the token it was opened with, and a proxy's token as that it was renewed with.
func (r *Registry) look(ctx context.Context, c store.Credential) (store.Credential, error) {
	kept, err := r.store.Credential(ctx, store.System(), c.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && (c.Kind == store.CredentialSession || c.Kind == store.CredentialAPIKey):
		return kept, ErrTokenRevoked // it was kept when it was made, and has been dropped since
	case errors.Is(err, store.ErrNotFound):
		err = r.store.InTx(ctx, func(tx store.Tx) (err error) {
			kept, err = tx.KeepCredential(ctx, c)
			return err
		})
	}
	if err != nil || kept.Parent == "" || !kept.RevokedAt.IsZero() {
		return kept, err
	}
	revoked, err := r.store.RevokedCredentials(ctx, []string{kept.ID})
	if len(revoked) > 0 {
		kept.RevokedAt = time.Now()
	}
	return kept, err
}

// remember keeps an answer. When the map is full of recent answers it is cleared: a flood of
// credentials then costs queries, not memory.
func (r *Registry) remember(c check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.checked) >= mostChecked {
		maps.DeleteFunc(r.checked, func(_ string, old check) bool { return c.at.Sub(old.at) > checkTime })
		if len(r.checked) >= mostChecked {
			clear(r.checked)
		}
	}
	r.checked[c.credential.ID] = c
}

// note remembers that a credential was used, for the next write. A credential that was written a moment ago is left
// out until useTime has passed.
func (r *Registry) note(id string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.written[id]) >= useTime && len(r.used) < mostChecked {
		r.used[id] = now
	}
}

// key finds the credential of an API key. Unlike other credentials an API key is valid only if the
// store has it.
func (r *Registry) key(ctx context.Context, id string, fresh bool) (store.Credential, error) {
	if r == nil {
		return store.Credential{}, ErrTokenInvalid
	}
	r.mu.Lock()
	known, ok := r.checked[id]
	r.mu.Unlock()
	if !fresh && ok && time.Since(known.at) <= checkTime {
		return known.credential, nil
	}
	kept, err := r.store.Credential(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) {
		return kept, ErrTokenInvalid
	}
	if err == nil {
		r.remember(check{time.Now(), kept})
	}
	return kept, err
}

// Watch ends the context when the credential is revoked, or good no longer is true; release must be
// called. A revocation between the check of the request and this call is found by the next sweep,
// because the link is in the map by then.
func (r *Registry) Watch(ctx context.Context, id string, good func() bool) (watched context.Context, release func()) {
	if r == nil || id == "" {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	l := &link{end, good}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.links[id] == nil {
		r.links[id] = make(map[*link]struct{})
	}
	r.links[id][l] = struct{}{}
	return ctx, func() {
		end(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.links[id], l)
		if len(r.links[id]) == 0 {
			delete(r.links, id)
		}
	}
}

// Run ends what was opened with credentials that are revoked since, and keeps when they were used. A failing database
// is logged once and not at every look.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		err := r.sweep(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.log.Error("revoked credentials cannot be looked for; streams that are open stay open until they can", slog.Any("error", err))
		}
		failing = err != nil
	}
}

// sweep looks once. The query runs without the lock, so a link may open or close meanwhile. A closed
// one is simply not there to be ended; a new one was checked when its request came and is looked at
// by the next sweep.
func (r *Registry) sweep(ctx context.Context) error {
	now := time.Now()
	r.mu.Lock()
	open := make([]string, 0, len(r.links))
	for id, links := range r.links {
		open = append(open, id)
		for l := range links {
			if !l.good() {
				l.end(ErrTokenRevoked)
			}
		}
	}
	drop := now.Sub(r.dropped) >= dropEvery
	dropUsed := now.Sub(r.tickets) >= dropTickets
	if dropUsed {
		r.tickets = now
	}
	r.mu.Unlock()
	revoked, err := r.store.RevokedCredentials(ctx, open)
	for _, id := range revoked {
		r.end(id)
	}
	if err != nil {
		return err
	}
	if dropUsed {
		if err := r.store.InTx(ctx, func(tx store.Tx) error { return tx.DropTickets(ctx, now.Add(-dropTickets)) }); err != nil {
			return err
		}
	}
	if err := r.writeUse(ctx, now); err != nil || !drop {
		return err
	}
	r.mu.Lock()
	r.dropped = now
	r.mu.Unlock()
	return r.store.InTx(ctx, func(tx store.Tx) error { return tx.DropCredentials(ctx, now.Add(-dropTime)) })
}

// writeUse keeps when credentials were used. A use noted during the write keeps its place in used
// only if it is of another credential: for the one being written the time is close enough.
func (r *Registry) writeUse(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	ids := slices.Sorted(maps.Keys(r.used)) // replicas that lock rows in one order do not deadlock
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	err := r.store.InTx(ctx, func(tx store.Tx) error { return tx.UseCredentials(ctx, ids, now) })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.written) >= mostChecked {
		clear(r.written)
	}
	for _, id := range ids {
		delete(r.used, id)
		r.written[id] = now
	}
	return nil
}

// end ends what was opened with a credential, on this replica.
func (r *Registry) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.checked, id)
	for l := range r.links[id] {
		l.end(ErrTokenRevoked)
	}
}

// forget has every credential checked anew, by the requests that come and by a look at what is open:
// a revocation was made here.
func (r *Registry) forget(ctx context.Context) {
	r.mu.Lock()
	clear(r.checked)
	r.mu.Unlock()
	if err := r.sweep(ctx); err != nil { // Run looks again
		r.log.Warn("a revocation is kept; open streams end with the next look", slog.Any("error", err))
	}
}
