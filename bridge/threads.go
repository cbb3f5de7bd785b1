package bridge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/search"
	"aqueduct/store"
)

// Threads is what owners do with their threads beside talking in them: rename, archive, search, share (shares.go), delete.
// None of it is done by the Session's owner: these are requests like any other, which lock the row.
type Threads struct {
	store   store.Store
	log     *eventlog.Log
	bell    *eventlog.Bell
	pasts   *transcripts
	agents  *Directory
	cancels *Cancels
	feed    *approval.Feed // of Questions, which follows who may decide
	filter  *redact.Filter
	entries *contextstore.Service // nil without a context store
	index   *search.Index
	logger  *slog.Logger
}

// ThreadChange lists a user's changes of a thread; nil leaves a member unchanged.
type ThreadChange struct {
	Title    *string
	Archived *bool
}

// Change sets the title that the user chose, and archives the thread or restores it.
// The title is masked and made plain like one that the server made up: it is shown in lists, in logs of pages and in
// notifications.
func (t *Threads) Change(ctx context.Context, who store.Principal, threadID string, to ThreadChange) error {
	session, err := t.store.SessionByExternalID(ctx, store.As(who), threadID)
	if err != nil {
		return err
	}
	err = t.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		if to.Title != nil {
			if err := tx.SetSessionTitle(ctx, session.ID, approval.PlainTitle(t.filter.Text(*to.Title))); err != nil {
				return err
			}
		}
		if to.Archived != nil {
			return tx.SetSessionArchived(ctx, session.ID, *to.Archived)
		}
		return nil
	})
	if err == nil {
		t.bell.Ring(session.ID)
	}
	return err
}

// Search lists the threads that contain the words of the query; see store.SearchReader.
func (t *Threads) Search(ctx context.Context, in store.Scope, query store.SearchQuery) (found []store.Session, next string, err error) {
	return t.index.Threads(ctx, in, query)
}

const (
	// purgeEvery is how often each replica looks for deleted Sessions, and so how long it may hold one in memory after that.
	purgeEvery = 5 * time.Second
	// purgeGrace is how long the row of a deleted Session stays, empty. After it, rows are looked for once more: what an owner,
	// a proxy or a webhook was about to write at the deletion has been written by then.
	purgeGrace = time.Minute
	// purgeAtOnce bounds the Sessions of one look.
	purgeAtOnce = 100
)

// errActive: a Turn has begun since the Session was looked at.
var errActive = errors.New("bridge: the session has a turn under way")

// Delete removes a thread and all that is kept of it. A Turn under way is cancelled first, and the session of an agent
// that keeps one is closed. The thread is gone for every caller when its row is hidden; its other rows are deleted after
// that, a part at a time. When ctx ends before all are, the replicas delete the rest.
//
// Hiding and deleting are two steps because a large thread takes many transactions, and because an owner on another
// replica may still hold it. Hidden, no scope sees it and no owner can claim it; what was on its way is swept up after
// purgeGrace.
func (t *Threads) Delete(ctx context.Context, who store.Principal, threadID string) error {
	ctx = store.Deleting(ctx)
	session, err := t.store.SessionByExternalID(ctx, store.As(who), threadID)
	if err != nil {
		return err
	}
	for {
		if err = t.hide(ctx, who, session); !errors.Is(err, errActive) {
			break
		}
	}
	if err != nil {
		return err
	}
	t.bell.Ring(session.ID) // tails of it end
	t.forget(session.ID)
	if err := t.purge(ctx, session.ID); err != nil {
		return err
	}
	return t.store.Scrub(ctx)
}

// hide ends what the Session has under way and hides it, unless a Turn has begun in between: its owner would go on writing.
// The Agent is asked to forget before the thread is hidden. If that fails the thread is still there and the user can
// try again.
func (t *Threads) hide(ctx context.Context, who store.Principal, session store.Session) error {
	if err := t.quiesce(ctx, session.ID, who.User); err != nil {
		return err
	}
	// Every Agent that was ever addressed is asked, since each keeps its own under an InstanceID of its own.
	agents, err := t.agentsOf(ctx, session)
	if err != nil {
		return err
	}
	for _, id := range agents {
		if f, ok := t.agents.serving(session, id).(Forgetter); ok {
			if err := f.Forget(ctx, InstanceID(session, id)); err != nil {
				return err
			}
		}
	}
	return t.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		if _, err := tx.ActiveTurn(ctx, store.System(), session.ID); err == nil {
			return errActive
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := tx.DeleteTasksOf(ctx, session.Tenant, session.User, session.ExternalID); err != nil {
			return err
		}
		return tx.DeleteSession(ctx, session.ID, time.Now())
	})
}

// forget drops what this process holds of a Session.
// The log's cursor and the cached transcript are dropped on every replica, each by its own purge round; the row is
// hidden for all of them at once.
func (t *Threads) forget(sessionID string) {
	t.log.Forget(sessionID)
	t.pasts.drop(sessionID)
}

// purge deletes the rows of a hidden Session in many small transactions, so that other writers are not held up. The bytes of its
// blobs go first, while their rows name them.
func (t *Threads) purge(ctx context.Context, sessionID string) error {
	if t.entries != nil {
		if err := t.entries.PurgeSession(ctx, sessionID); err != nil {
			return err
		}
	}
	for done := false; !done; {
		err := t.store.InTx(ctx, func(tx store.Tx) (err error) {
			done, err = tx.PurgeSession(ctx, sessionID)
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil // another replica has removed it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeDeleted finishes deletions until ctx ends: those of a request that was given up, of a replica that died, and of
// earlier versions, which only hid threads.
func (t *Threads) purgeDeleted(ctx context.Context) {
	ctx = store.Deleting(ctx)
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		if err := t.purgeRound(ctx); err != nil && ctx.Err() == nil {
			t.logger.Warn("deleted threads could not be removed, trying again", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// purgeRound removes the rows of Sessions that were hidden for purgeGrace or longer, and what this process holds of
// all.
// Scrub runs once a round and not once a Session. SQLite's log keeps deleted pages as they were until it is written anew.
func (t *Threads) purgeRound(ctx context.Context) error {
	deleted, err := t.store.DeletedSessions(ctx, store.System(), purgeAtOnce)
	if err != nil || len(deleted) == 0 {
		return err
	}
	removed := false
	for _, d := range deleted {
		t.forget(d.ID)
		if time.Since(d.At) < purgeGrace {
			continue // its request deletes it, or a later round
		}
		gone := t.purge(ctx, d.ID)
		if gone == nil {
			gone = t.store.InTx(ctx, func(tx store.Tx) error { return tx.RemoveSession(ctx, d.ID) })
		}
		err = errors.Join(err, gone) // one that cannot be purged holds up no other
		removed = removed || gone == nil
	}
	if !removed {
		return err
	}
	return errors.Join(err, t.store.Scrub(ctx))
}

// quiesce cancels what a Session has under way and waits until nothing is. What is queued is cancelled first: its Agent
// would else be called with it as soon as the Turn before is over.
// The bell is listened to before the first look, so that a Turn that ends in between is not waited for.
func (t *Threads) quiesce(ctx context.Context, sessionID, by string) error {
	bell, stop := t.bell.Listen(sessionID)
	defer stop()
	asked := make(map[string]bool)
	for {
		turn, err := t.store.ActiveTurn(ctx, store.System(), sessionID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		due, err := t.store.ReservedRuns(ctx, store.System(), sessionID)
		if err != nil {
			return err
		}
		turns := []string{turn.ID}
		for _, run := range due {
			turns = append(turns, run.TurnID)
		}
		for _, id := range slices.Backward(turns) {
			if asked[id] {
				continue
			}
			asked[id] = true
			if err := t.cancels.request(ctx, store.Turn{ID: id, SessionID: sessionID}, by); err != nil {
				return err
			}
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// agentsOf are the Agents that a Session's Turns addressed, its own first.
func (t *Threads) agentsOf(ctx context.Context, session store.Session) ([]string, error) {
	all, err := t.store.AgentsOfSession(ctx, store.System(), session.ID)
	if !slices.Contains(all, session.AgentID) {
		all = append([]string{session.AgentID}, all...)
	}
	return all, err
}
