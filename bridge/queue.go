package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/wake"
	"aqueduct/policy"
	"aqueduct/store"
)

// Queue is the second link of the platform contract (§3.2): a prompt that can wait is kept as a Task and answered at once
// with the id that its Turn will have. It becomes a Turn when its agent has room, by the same intake as any prompt.
//
// A Task is taken by one replica, under a lock that all share, so that an agent never has more of them than it may.
// Beginning the Turn, and whatever else has to be there from then on, is one transaction, which the Task's row decides: a Task
// that was cancelled meanwhile begins nothing. What was begun is a Turn like any other, and never begun a second time.
type Queue struct {
	store    store.Store
	sessions *Sessions
	vault    *redact.Vault // nil: what waits is kept as it is
	limits   Limits
	replica  string
	bell     wake.Signal
	busy     atomic.Bool // something waited or was under way at the last look
	logger   *slog.Logger
	begun    func(ctx context.Context, tx store.Tx, t store.Task, channel string, reply Reply) error
	behind   store.TaskLine // where the next look goes on; of Run's goroutine
}

const (
	// maxTaskBody bounds a Task's request: the queue may hold many, and pictures belong into the context store.
	maxTaskBody = 1 << 20
	// linesOfLook is how many lines one look reads, each what waits of one user for one agent; the next look goes on behind
	// them. A line costs a step in an index.
	linesOfLook = 1000
	// queueLook is how often the queue is looked at without a ring, while something is in it; a Turn may have ended at
	// another replica.
	queueLook = 500 * time.Millisecond
	// queueRest is the same while it is empty.
	queueRest = 2 * time.Second
	// endedTasks is how long Tasks are kept that never became Turns, for who asks what became of them.
	endedTasks = 7 * 24 * time.Hour
	// MaxPriority and MinPriority bound the priority of Tasks.
	MaxPriority, MinPriority = 10, -10
)

// Codes of the queue.
const (
	RefusedQueueFull   = "queue_full"      // too many Tasks wait
	RefusedTaskTooBig  = "task_too_large"  // its request
	CodeTaskUnreadable = "task_unreadable" // the key of its request is gone, or the bytes of its attachments
)

// TaskRequest is a prompt for the queue.
type TaskRequest struct {
	Chat     ChatRequest // its RunID is the client's id of the request
	Priority int64
	// Channel is the channel whose callback gets what comes of it; "" is none.
	Channel string
}

// turnEnded has the queue looked at: there may be room. A server without Tasks does not look for each Turn.
func (q *Queue) turnEnded() {
	if q.busy.Load() {
		q.bell.Ring()
	}
}

// OnBegun has f called in the transaction that makes a Task a Turn. It is set once, before Run.
func (q *Queue) OnBegun(f func(ctx context.Context, tx store.Tx, t store.Task, channel string, reply Reply) error) {
	q.begun = f
}

// Add keeps a Task. The same request is the same Task, also when it has become a Turn since.
func (q *Queue) Add(ctx context.Context, req TaskRequest) (store.Task, error) {
	chat := &req.Chat
	if err := chat.check(); err != nil {
		return store.Task{}, err
	}
	t := store.Task{
		ID: newID(), Tenant: chat.Principal.Tenant, User: chat.Principal.User, RequestID: chat.RunID, ThreadID: cmp.Or(chat.ThreadID, chat.RunID),
		Priority: req.Priority, Status: store.TaskWaiting, BodyHash: chat.BodyHash, CreatedAt: time.Now().Truncate(time.Millisecond),
	}
	var err error
	if t.AgentID, err = q.agentOf(ctx, chat, t.ThreadID); err != nil {
		return t, err
	}
	_, _, shared, err := threadOf(ctx, q.store, chat.Principal, t.ThreadID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	if chat.shared = err == nil && shared != nil; chat.shared && !shared.Write {
		return t, NotShared("write")
	}
	if err := q.seal(&t, req); err != nil {
		return t, err
	}
	err = q.store.InTx(ctx, func(tx store.Tx) error {
		if known, err := q.known(ctx, tx, chat.Principal, t); err == nil || !errors.Is(err, store.ErrNotFound) {
			t = known
			return err
		}
		if err := q.mayWait(ctx, tx, t); err != nil {
			return err
		}
		return tx.InsertTask(ctx, t)
	})
	if errors.Is(err, store.ErrConflict) { // the same request, at once
		if found, err := q.known(ctx, q.store, chat.Principal, t); err == nil {
			return found, nil
		}
	}
	if err == nil {
		q.bell.Ring()
	}
	return t, err
}

// LinkQuestion is a prompt that does not name its link.
type LinkQuestion struct {
	By                store.Principal
	AgentID, ThreadID string
	Labels            []string
	ExpectedCost      float64
}

// Waits reports whether the policy puts a prompt into the queue.
func (q *Queue) Waits(ctx context.Context, l LinkQuestion) (bool, error) {
	rules := q.sessions.cfg.Policy
	if rules == nil {
		return false, nil
	}
	agent, err := q.named(ctx, l.By, l.AgentID, l.ThreadID)
	link, _ := rules.LinkOf(policy.Prompted{By: policy.Principal(l.By), AgentID: agent, Labels: l.Labels, ExpectedCost: l.ExpectedCost})
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
		session, _, _, err = threadOf(ctx, q.store, who, threadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	return cmp.Or(session.AgentID, q.sessions.cfg.Agents.Default(who.Tenant)), nil
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
func (q *Queue) agentOf(ctx context.Context, chat *ChatRequest, threadID string) (string, error) {
	cfg := &q.sessions.cfg
	agent, err := q.named(ctx, chat.Principal, chat.AgentID, threadID)
	if err != nil {
		return "", err
	}
	found, err := cfg.Agents.find(ctx, chat.Principal.Tenant, agent)
	if err != nil {
		return "", err
	}
	if found == nil || ReservedAgent(agent) {
		return "", unknownAgent()
	}
	if cfg.Policy != nil {
		if v := cfg.Policy.MayUse(policy.Principal(chat.Principal), agent); v.Action == policy.Block {
			return "", fault.New(RefusedForbiddenAgent, "You may not use this agent. "+v.Reason)
		}
	}
	return agent, nil
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
			err = childsThread()
		}
	}
	if err == nil && !bytes.Equal(before.BodyHash, t.BodyHash) {
		err = fault.New(RefusedRunIDConflict, "This request_id was used for another request.")
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
		{store.As(store.Principal{Tenant: t.Tenant, User: t.User}), q.limits.TasksPerUser, "user"}, {store.Within(t.Tenant), q.limits.TasksPerTenant, "tenant"},
	} {
		n, err := r.CountTasks(ctx, limit.in)
		if err != nil {
			return err
		}
		if n >= limit.most {
			return fault.New(RefusedQueueFull, fmt.Sprintf("%d tasks of this %s wait.", n, limit.of))
		}
	}
	return nil
}

// Task is one of the caller's, by its id or the client's. One that has become a Turn is store.ErrNotFound here once that has
// ended.
func (q *Queue) Task(ctx context.Context, in store.Scope, id string) (store.Task, error) {
	return q.store.Task(ctx, in, id)
}

// Cancel ends a Task that has no Turn yet; one that is just being begun then does not begin. False when there is none of that
// id, or it has its Turn, which is what can be cancelled.
func (q *Queue) Cancel(ctx context.Context, in store.Scope, id string) (bool, error) {
	for {
		t, err := q.store.Task(ctx, in, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil || t.Status != store.TaskWaiting && t.Status != store.TaskTaken {
			return t.Status == store.TaskCancelled, err
		}
		done := false
		err = q.store.InTx(ctx, func(tx store.Tx) (err error) {
			if _, err = tx.Turn(ctx, store.System(), t.ID); !errors.Is(err, store.ErrNotFound) {
				return err // of an earlier version, which did not tell TAKEN from BEGUN
			}
			done, err = tx.MoveTask(ctx, store.TaskMove{ID: t.ID, From: t.Status, To: store.TaskCancelled, EndedAt: time.Now()})
			return err
		})
		if done || err != nil {
			return done, err
		}
		if _, err := q.store.Turn(ctx, store.System(), t.ID); err == nil {
			return false, nil
		}
	}
}
