package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Tasks name their user themselves: they have no Session yet.
	taskReader struct{ *conn }

	// A Task is taken by one replica, under the queue's lock.
	taskTx struct{ *conn }
)

const taskColumns = `t.task_id, t.tenant, t.user_id, t.request_id, t.thread_id, t.agent_id, t.priority, t.status, t.replica, t.kid, t.body_hash,
	t.code, t.message, t.created_at, t.ended_at`

func taskInto(t *store.Task) []any {
	return []any{
		&t.ID, &t.Tenant, &t.User, &t.RequestID, &t.ThreadID, &t.AgentID, &t.Priority, &t.Status, &t.Replica, &t.KID, &t.BodyHash,
		&t.Code, &t.Message, timeInto{&t.CreatedAt}, timeInto{&t.EndedAt},
	}
}

// Task implements store.TaskReader.
func (r *taskReader) Task(ctx context.Context, in store.Scope, id string) (store.Task, error) {
	if blind(in) {
		return store.Task{}, store.ErrNotFound
	}
	q := from("SELECT "+taskColumns+", t.body FROM tasks t").and("(t.task_id = ", id).raw(" OR t.request_id = ").bind(id).raw(")")
	q.ofScope(in, "t.tenant", "t.user_id").raw(" ORDER BY t.task_id LIMIT 1")
	return one(ctx, r.conn, func(at row) (t store.Task, err error) {
		err = at.Scan(append(taskInto(&t), &t.Body)...)
		return t, err
	}, q.sql.String(), q.args...)
}

// CountTasks implements store.TaskReader.
func (r *taskReader) CountTasks(ctx context.Context, in store.Scope) (int, error) {
	if blind(in) {
		return 0, nil
	}
	q := from("SELECT COUNT(*) FROM tasks t").and("t.status = ", string(store.TaskWaiting)).ofScope(in, "t.tenant", "t.user_id")
	n, err := one(ctx, r.conn, scanInt, q.sql.String(), q.args...)
	return int(n), err
}

// NextTasks implements store.TaskReader. What is old and of low priority in a long queue of one user is not read.
func (r *taskReader) NextTasks(ctx context.Context, in store.Scope, each, most int) ([]store.Task, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (t store.Task, err error) {
		err = at.Scan(taskInto(&t)...)
		return t, err
	}, `SELECT `+taskColumns+` FROM (SELECT w.*, ROW_NUMBER() OVER (PARTITION BY w.tenant, w.user_id, w.agent_id ORDER BY w.priority DESC, w.task_id) AS place
		FROM tasks w WHERE w.status = 'WAITING' AND NOT EXISTS (SELECT 1 FROM tasks e WHERE e.tenant = w.tenant AND e.user_id = w.user_id
		AND e.thread_id = w.thread_id AND e.status IN ('WAITING', 'TAKEN') AND e.task_id < w.task_id)) t
		WHERE t.place <= $1 ORDER BY t.priority DESC, t.task_id LIMIT $2`, each, most)
}

// TakenTasks implements store.TaskReader.
func (r *taskReader) TakenTasks(ctx context.Context, in store.Scope) ([]store.TakenTask, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (t store.TakenTask, err error) {
		err = at.Scan(append(taskInto(&t.Task), &t.Turn, &t.Gone)...)
		return t, err
	}, `SELECT `+taskColumns+`, COALESCE(u.status, ''), NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = t.replica AND NOT r.fenced)
		FROM tasks t LEFT JOIN turns u ON u.turn_id = t.task_id WHERE t.status = 'TAKEN' ORDER BY t.task_id`)
}

// LockQueue implements store.TaskTx by the lock of a row that is there for it.
func (t *taskTx) LockQueue(ctx context.Context) error {
	return t.must(ctx, "UPDATE queue_lock SET rounds = rounds + 1 WHERE id = 1")
}

// InsertTask implements store.TaskTx.
func (t *taskTx) InsertTask(ctx context.Context, v store.Task) error {
	return t.insert(ctx, `INSERT INTO tasks (task_id, tenant, user_id, request_id, thread_id, agent_id, priority, status, kid, body, body_hash, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		v.ID, v.Tenant, v.User, v.RequestID, v.ThreadID, v.AgentID, v.Priority, string(v.Status), v.KID, v.Body, v.BodyHash, millis(v.CreatedAt))
}

// MoveTask implements store.TaskTx.
func (t *taskTx) MoveTask(ctx context.Context, m store.TaskMove) (bool, error) {
	return t.change(ctx, `UPDATE tasks SET status = $3, replica = $4, code = $5, message = $6, ended_at = $7 WHERE task_id = $1 AND status = $2`,
		m.ID, string(m.From), string(m.To), m.Replica, m.Code, m.Message, millis(m.EndedAt))
}

// DeleteTask implements store.TaskTx.
func (t *taskTx) DeleteTask(ctx context.Context, id string) error {
	_, err := t.exec(ctx, "DELETE FROM tasks WHERE task_id = $1", id)
	return err
}

// DeleteTasksOf implements store.TaskTx.
func (t *taskTx) DeleteTasksOf(ctx context.Context, tenant, user, threadID string) error {
	_, err := t.exec(ctx, "DELETE FROM tasks WHERE tenant = $1 AND user_id = $2 AND thread_id = $3", tenant, user, threadID)
	return err
}

// DeleteTasksBefore implements store.TaskTx.
func (t *taskTx) DeleteTasksBefore(ctx context.Context, ended time.Time) error {
	_, err := t.exec(ctx, "DELETE FROM tasks WHERE ended_at > 0 AND ended_at < $1", millis(ended))
	return err
}
