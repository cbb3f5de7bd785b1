package store

import (
	"context"
	"time"
)

// TaskStatus is how far a Task is.
type TaskStatus string

// The states of a Task. One that was taken has its Turn a moment later, and is deleted when that has ended.
const (
	TaskWaiting   TaskStatus = "WAITING"
	TaskTaken     TaskStatus = "TAKEN"     // by a replica, and has no Turn yet
	TaskBegun     TaskStatus = "BEGUN"     // has a Turn, from the same transaction
	TaskUnsent    TaskStatus = "UNSENT"    // BEGUN, and nothing has reached its Agent: it could not be connected to
	TaskFailed    TaskStatus = "FAILED"    // it cannot be begun: Code and Message say why
	TaskCancelled TaskStatus = "CANCELLED" // before it was begun
)

// Task is a prompt that waits in the queue for its Turn.
type Task struct {
	ID        string // of the Turn that it will be
	Tenant    string
	User      string
	RequestID string // the client's own, unique for its user
	ThreadID  string // the client's name of the Session
	AgentID   string
	Priority  int64 // the higher, the sooner
	Status    TaskStatus
	Replica   string // which took it
	// Body is the request, encrypted with the key KID where there is one. It is not read with lists.
	Body      []byte
	KID       string
	BodyHash  []byte
	Code      string
	Message   string
	CreatedAt time.Time
	EndedAt   time.Time // of one that FAILED or was CANCELLED
}

// TaskLine is what waits of one user for one Agent.
type TaskLine struct {
	AgentID, Tenant, User string
	Oldest                string // id of the Task that waits the longest
}

// TakenTask is a Task that was taken or begun, and what became of it.
type TakenTask struct {
	Task
	Turn TurnStatus // "" while there is none
	Gone bool       // the replica that took it is fenced
}

// TaskReader reads the queue. Tasks are seen by their user.
type TaskReader interface {
	// Task is one by its id or by the client's.
	Task(ctx context.Context, in Scope, id string) (Task, error)
	// CountTasks counts those that wait, up to most.
	CountTasks(ctx context.Context, in Scope, most int) (int, error)
	// TaskLines are lines in which something waits, in the order of their Agents, tenants and users, from behind one on.
	TaskLines(ctx context.Context, in Scope, after TaskLine, most int) ([]TaskLine, error)
	// NextTasks are those of a line that could be begun next, by priority and then by age: of each thread only the oldest,
	// when none of it was taken and the thread has no Turn under way, paused or not.
	NextTasks(ctx context.Context, in Scope, line TaskLine, most int) ([]Task, error)
	TakenTasks(ctx context.Context, in Scope) ([]TakenTask, error)
}

// TaskMove is a change of a Task's state.
type TaskMove struct {
	ID            string
	From, To      TaskStatus
	Replica       string
	Code, Message string
	EndedAt       time.Time
}

// TaskTx changes the queue.
type TaskTx interface {
	// LockQueue has two replicas that choose from the queue wait for each other until their transactions end.
	LockQueue(ctx context.Context) error
	// InsertTask is ErrConflict where the user has one of that RequestID.
	InsertTask(ctx context.Context, t Task) error
	// MoveTask is false when the Task is not in From any more.
	MoveTask(ctx context.Context, m TaskMove) (bool, error)
	DeleteTask(ctx context.Context, id string) error
	// DeleteTasksOf deletes all of a thread.
	DeleteTasksOf(ctx context.Context, tenant, user, threadID string) error
	// DeleteTasksBefore deletes those that FAILED or were CANCELLED before.
	DeleteTasksBefore(ctx context.Context, ended time.Time) error
}
