// Package queue keeps prompts that can wait until their agent has room, and has the engine begin them then. It stands above
// the engine: a Task becomes a Turn by the same intake as any prompt (bridge.Sessions.Chat), and is one like any other from then on.
package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/wake"
	"aqueduct/policy"
	"aqueduct/store"
)

// Config is what a Queue needs.
type Config struct {
	Store    store.Store
	Sessions *bridge.Sessions // begin the Turns
	Replica  string           // the id of this process, under which Tasks are taken
	// Vault encrypts the requests that wait; nil keeps them as they are.
	Vault *redact.Vault
	// Policy has the rules for links; nil has none.
	Policy *policy.Holder
	Limits Limits
	Logger *slog.Logger
}

// Limits bound a Queue. The zero value of a member means its default.
type Limits struct {
	// PerAgent bounds the Tasks that one agent works on at a time, on all replicas together; 8. Prompts that are answered at once
	// do not count: the queue is for what fills the gaps between them. Nor do Tasks that wait for a person.
	PerAgent int
	// PerUser and PerTenant bound what waits: the queue is for work of a night, and not for what no agent will ever get to;
	// 20 000 and 200 000.
	PerUser, PerTenant int
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.PerAgent, 8), cmp.Or(l.PerUser, 20_000), cmp.Or(l.PerTenant, 200_000)}
}

// Queue is the second link of the platform contract (§3.2): a prompt that can wait is kept as a Task and answered at once
// with the id that its Turn will have. It becomes a Turn when its agent has room, by the same intake as any prompt.
//
// A Task is taken by one replica, under a lock that all share, so that an agent never has more of them than it may.
// Beginning the Turn, and whatever else has to be there from then on, is one transaction, which the Task's row decides: a Task
// that was cancelled meanwhile begins nothing. What was begun is a Turn like any other, and never begun a second time.
type Queue struct {
	cfg    Config
	bell   wake.Signal
	busy   atomic.Bool // something waited or was under way at the last look
	begun  func(ctx context.Context, tx store.Tx, t store.Task, channel string, reply bridge.Reply) error
	ended  func(ctx context.Context, tx store.Tx, t store.Task, channel string) error
	behind store.TaskLine // where the next look goes on; of Run's goroutine
}

// New makes a Queue. Run must be running for anything to be begun.
func New(cfg Config) *Queue {
	cfg.Limits = cfg.Limits.withDefaults()
	return &Queue{cfg: cfg, bell: wake.New()}
}

const (
	// maxBody bounds a Task's request: the queue may hold many, and pictures belong into the context store.
	maxBody = 1 << 20
	// linesOfLook is how many lines one look reads, each what waits of one user for one agent; the next look goes on behind
	// them. A line costs a step in an index.
	linesOfLook = 1000
	// lookEvery is how often the queue is looked at without a ring, while something is in it; a Turn may have ended at
	// another replica.
	lookEvery = 500 * time.Millisecond
	// restEvery is the same while it is empty.
	restEvery = 2 * time.Second
	// endedTasks is how long Tasks are kept that never became Turns, for who asks what became of them.
	endedTasks = 7 * 24 * time.Hour
)

// Codes of the queue.
const (
	CodeFull       = "queue_full"      // too many Tasks wait
	CodeTooLarge   = "task_too_large"  // its request
	CodeUnreadable = "task_unreadable" // the key of its request is gone, or the bytes of its attachments
)

// TurnEnded has the queue looked at, for there may be room. It is for the end of each Turn of this replica, and quick; a server
// without Tasks does not look.
func (q *Queue) TurnEnded() {
	if q.busy.Load() {
		q.bell.Ring()
	}
}

// OnBegun has f called in the transaction that makes a Task a Turn, which an error of it undoes. channel is the one whose callback
// gets what comes of it; "" is none. It is set once, before Run.
func (q *Queue) OnBegun(f func(ctx context.Context, tx store.Tx, t store.Task, channel string, reply bridge.Reply) error) {
	q.begun = f
}

// OnEnded has f called in the transaction that ends a Task which never became a Turn, as OnBegun.
func (q *Queue) OnEnded(f func(ctx context.Context, tx store.Tx, t store.Task, channel string) error) {
	q.ended = f
}

// Add keeps a prompt as a Task, whose id its Turn will have. The RunID of the request is the client's id of it: the same request is
// the same Task, also when it has become a Turn since. channel is the channel whose callback gets what comes of it; "" is none.
// A *fault.Error refuses what the intake would refuse, and with CodeFull or CodeTooLarge what has no place.
func (q *Queue) Add(ctx context.Context, chat bridge.ChatRequest, priority int64, channel string) (store.Task, error) {
	if err := chat.Check(); err != nil {
		return store.Task{}, err
	}
	if q.cfg.Sessions.Draining().Begun() {
		return store.Task{}, bridge.ShuttingDown()
	}
	// The Task's id is made here, because it is what the caller is answered with: the Turn gets it later (begin). A
	// prompt that names no thread begins one, which is called as its run is.
	t := store.Task{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: chat.Principal.Tenant, User: chat.Principal.User, RequestID: chat.RunID, ThreadID: cmp.Or(chat.ThreadID, chat.RunID),
		Priority: priority, Status: store.TaskWaiting, BodyHash: chat.BodyHash, CreatedAt: time.Now().Truncate(time.Millisecond),
	}
	var err error
	if t.AgentID, err = q.agentOf(ctx, chat, t.ThreadID); err != nil {
		return t, err
	}
	_, _, access, err := threadOf(ctx, q.cfg.Store, chat.Principal, t.ThreadID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	shared := err == nil && access != nil
	if shared && !access.Write {
		return t, bridge.NotShared("write")
	}
	// Before the transaction: neither encrypting nor a body that is too large has to do with rows.
	if err := q.seal(&t, chat, channel, shared); err != nil {
		return t, err
	}
	err = q.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if known, err := q.known(ctx, tx, chat.Principal, t); err == nil || !errors.Is(err, store.ErrNotFound) {
			t = known
			return err
		}
		if err := q.mayWait(ctx, tx, t); err != nil {
			return err
		}
		return tx.InsertTask(ctx, t)
	})
	// Two requests with one id that come at once both find none; the key of the row lets one of them in, and the
	// other gets that one's Task.
	if errors.Is(err, store.ErrConflict) { // the same request, at once
		if found, err := q.known(ctx, q.cfg.Store, chat.Principal, t); err == nil {
			return found, nil
		}
	}
	if err == nil {
		q.bell.Ring()
	}
	return t, err
}

// Waits reports whether the policy puts a prompt that names no link into the queue. Without an AgentID it is for the agent of the
// thread, or for the default.
func (q *Queue) Waits(ctx context.Context, p policy.Prompted, threadID string) (bool, error) {
	if q.cfg.Policy == nil {
		return false, nil
	}
	var err error
	p.AgentID, err = q.named(ctx, store.Principal(p.By), p.AgentID, threadID)
	link, _ := q.cfg.Policy.LinkOf(p)
	return link == policy.Async, err
}

// named is the agent that a prompt is for: the one it names, the thread's, or the default.
func (q *Queue) named(ctx context.Context, who store.Principal, agent, threadID string) (string, error) {
	if agent != "" {
		return agent, nil
	}
	var session store.Session
	if threadID != "" {
		var err error
		session, _, _, err = threadOf(ctx, q.cfg.Store, who, threadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	return cmp.Or(session.AgentID, q.cfg.Sessions.Agents().Default(who.Tenant)), nil
}

// threadOf is a thread of the caller's, or one that is shared with the caller and in which scope it is seen then.
func threadOf(ctx context.Context, r store.Reader, who store.Principal, id string) (session store.Session, in store.Scope, shared *store.Access, err error) {
	in = store.As(who)
	session, err = r.SessionByExternalID(ctx, in, id)
	if !errors.Is(err, store.ErrNotFound) {
		return session, in, nil, err
	}
	of, err := r.Access(ctx, who, store.AccessBy{SessionID: id})
	return of.Session, of.Scope(), &of, err
}

// agentOf is the agent that will answer, which must be there now: a Task for none would wait for nothing.
func (q *Queue) agentOf(ctx context.Context, chat bridge.ChatRequest, threadID string) (string, error) {
	agent, err := q.named(ctx, chat.Principal, chat.AgentID, threadID)
	if err == nil {
		err = q.cfg.Sessions.MayPrompt(ctx, chat.Principal, agent)
	}
	return agent, err
}

// known is the Task, or the Turn, that a request made before.
func (q *Queue) known(ctx context.Context, r store.Reader, who store.Principal, t store.Task) (store.Task, error) {
	before, err := r.Task(ctx, store.As(who), t.RequestID)
	if errors.Is(err, store.ErrNotFound) {
		var run store.Run
		session, in, _, missing := threadOf(ctx, r, who, t.ThreadID)
		if missing != nil {
			return t, missing
		}
		if run, err = r.RunByExternalID(ctx, in, session.ID, t.RequestID); err == nil {
			before = t
			before.ID, before.Status, before.BodyHash = run.TurnID, store.TaskTaken, run.BodyHash
		} else if errors.Is(err, store.ErrNotFound) && session.IsChild() {
			err = bridge.ChildsThread()
		}
	}
	if err == nil && !bytes.Equal(before.BodyHash, t.BodyHash) {
		err = fault.New(bridge.RefusedRunIDConflict, "This request_id was used for another request.")
	}
	return before, err
}

// mayWait refuses a Task that is one too many.
func (q *Queue) mayWait(ctx context.Context, r store.Reader, t store.Task) error {
	for _, limit := range []struct {
		in   store.Scope
		most int
		of   string
	}{
		{store.As(store.Principal{Tenant: t.Tenant, User: t.User}), q.cfg.Limits.PerUser, "user"}, {store.Within(t.Tenant), q.cfg.Limits.PerTenant, "tenant"},
	} {
		n, err := r.CountTasks(ctx, limit.in, limit.most)
		if err != nil {
			return err
		}
		if n >= limit.most {
			return fault.New(CodeFull, fmt.Sprintf("%d tasks of this %s wait.", n, limit.of))
		}
	}
	return nil
}

// Cancel ends a Task that has no Turn yet; one that is just being begun then does not begin. False when there is none of that
// id, or it has its Turn, which is what can be cancelled.
func (q *Queue) Cancel(ctx context.Context, in store.Scope, id string) (bool, error) {
	for {
		t, err := q.cfg.Store.Task(ctx, in, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil || t.Status != store.TaskWaiting && t.Status != store.TaskTaken {
			return t.Status == store.TaskCancelled, err
		}
		// A Task that moves between its read and this move is looked at again, in its new state: it may have become a
		// Turn, which is what the caller can cancel then.
		done := false
		err = q.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			done = false // of a first try that was undone
			if _, err = tx.Turn(ctx, store.System(), t.ID); !errors.Is(err, store.ErrNotFound) {
				return err // of an earlier version, which did not tell TAKEN from BEGUN
			}
			done, err = q.end(ctx, tx, t, store.TaskMove{ID: t.ID, From: t.Status, To: store.TaskCancelled})
			return err
		})
		if done || err != nil {
			return done, err
		}
		if _, err := q.cfg.Store.Turn(ctx, store.System(), t.ID); err == nil {
			return false, nil
		}
	}
}
