package sqldb

import (
	"context"
	"errors"
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

// Task implements store.TaskReader, by its id or by the client's id of the request, which are two queries: for one with OR
// SQLite would go through all of a tenant's Tasks. The request itself is read here alone: lists leave it out.
func (r *taskReader) Task(ctx context.Context, in store.Scope, id string) (store.Task, error) {
	if blind(in) {
		return store.Task{}, store.ErrNotFound
	}
	t, err := r.taskBy(ctx, in, "t.task_id = ", id)
	if errors.Is(err, store.ErrNotFound) {
		return r.taskBy(ctx, in, "t.request_id = ", id)
	}
	return t, err
}

// taskBy reads the first Task that fulfils the condition.
func (r *taskReader) taskBy(ctx context.Context, in store.Scope, condition, id string) (store.Task, error) {
	q := from("SELECT "+taskColumns+", t.body FROM tasks t").and(condition, id).ofScope(in, "t.tenant", "t.user_id")
	return one(ctx, r.conn, func(at row) (t store.Task, err error) {
		err = at.Scan(append(taskInto(&t), &t.Body)...)
		return t, err
	}, q.raw(" ORDER BY t.task_id || '' LIMIT 1").sql.String(), q.args...)
}

// CountTasks implements store.TaskReader.
func (r *taskReader) CountTasks(ctx context.Context, in store.Scope, most int) (int, error) {
	if blind(in) {
		return 0, nil
	}
	q := from("SELECT 1 FROM tasks t").raw(" AND t.status = 'WAITING'").ofList(in, "t.tenant", "t.user_id").limit(most)
	return count(ctx, r.conn, q)
}

// nextLine selects the oldest Task of the line behind that of c, by steps in the index tasks_line: the next user's, tenant's or
// Agent's. By one comparison of rows SQLite would pass over all of an Agent.
const nextLine = `COALESCE(
	(SELECT n.task_id FROM tasks n WHERE n.status = 'WAITING' AND n.agent_id = c.agent_id AND n.tenant = c.tenant AND n.user_id > c.user_id
		ORDER BY n.user_id, n.task_id LIMIT 1),
	(SELECT n.task_id FROM tasks n WHERE n.status = 'WAITING' AND n.agent_id = c.agent_id AND n.tenant > c.tenant
		ORDER BY n.tenant, n.user_id, n.task_id LIMIT 1),
	(SELECT n.task_id FROM tasks n WHERE n.status = 'WAITING' AND n.agent_id > c.agent_id
		ORDER BY n.agent_id, n.tenant, n.user_id, n.task_id LIMIT 1))`

// TaskLines implements store.TaskReader. It costs some steps in an index for each line, however much waits in it.
func (r *taskReader) TaskLines(ctx context.Context, in store.Scope, after store.TaskLine, most int) ([]store.TaskLine, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (l store.TaskLine, err error) {
		err = at.Scan(&l.AgentID, &l.Tenant, &l.User, &l.Oldest)
		return l, err
	}, `WITH RECURSIVE lines(id, n) AS (
			SELECT `+nextLine+`, 1 FROM (SELECT CAST($1 AS TEXT) AS agent_id, CAST($2 AS TEXT) AS tenant, CAST($3 AS TEXT) AS user_id) c
			UNION ALL SELECT `+nextLine+`, l.n + 1 FROM lines l JOIN tasks c ON c.task_id = l.id WHERE l.n < $4)
		SELECT t.agent_id, t.tenant, t.user_id, t.task_id FROM lines l JOIN tasks t ON t.task_id = l.id ORDER BY l.n`,
		after.AgentID, after.Tenant, after.User, int64(most))
}

// NextTasks implements store.TaskReader. What else a thread has is looked up for each Task on its way, by indexes: as joins, a
// database that knows little of its tables would read all Turns there are.
func (r *taskReader) NextTasks(ctx context.Context, in store.Scope, line store.TaskLine, most int) ([]store.Task, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (t store.Task, err error) {
		err = at.Scan(taskInto(&t)...)
		return t, err
	}, `SELECT `+taskColumns+` FROM tasks t WHERE t.status = 'WAITING' AND t.tenant = $1 AND t.user_id = $2 AND t.agent_id = $3
		AND t.task_id = (SELECT e.task_id FROM tasks e WHERE e.tenant = t.tenant AND e.user_id = t.user_id AND e.thread_id = t.thread_id
			AND e.status IN ('WAITING', 'TAKEN', 'BEGUN', 'UNSENT') ORDER BY e.task_id LIMIT 1)
		AND (SELECT u.turn_id FROM sessions s JOIN turns u ON u.session_id = s.session_id WHERE s.external_id = t.thread_id AND s.tenant = t.tenant
			AND s.user_id = t.user_id AND s.deleted_at = 0 AND u.status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL') LIMIT 1) IS NULL
		ORDER BY t.priority DESC, t.task_id LIMIT $4`, line.Tenant, line.User, line.AgentID, int64(most))
}

// TakenTasks implements store.TaskReader. A Turn has its Task's id, so the join finds what became of each.
func (r *taskReader) TakenTasks(ctx context.Context, in store.Scope) ([]store.TakenTask, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (t store.TakenTask, err error) {
		err = at.Scan(append(taskInto(&t.Task), &t.Turn, &t.Gone)...)
		return t, err
	}, `SELECT `+taskColumns+`, COALESCE(u.status, ''), NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = t.replica AND NOT r.fenced)
		FROM tasks t LEFT JOIN turns u ON u.turn_id = t.task_id WHERE t.status IN ('TAKEN', 'BEGUN', 'UNSENT') ORDER BY t.task_id`)
}

// LockQueue implements store.TaskTx by the lock of a row that is there for it.
func (t *taskTx) LockQueue(ctx context.Context) error {
	return t.must(ctx, "UPDATE queue_lock SET rounds = rounds + 1 WHERE id = 1")
}

// InsertTask implements store.TaskTx. A second Task of one user and request is a conflict (tasks_request).
func (t *taskTx) InsertTask(ctx context.Context, v store.Task) error {
	return t.insert(ctx, `INSERT INTO tasks (task_id, tenant, user_id, request_id, thread_id, agent_id, priority, status, kid, body, body_hash, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		v.ID, v.Tenant, v.User, v.RequestID, v.ThreadID, v.AgentID, v.Priority, string(v.Status), v.KID, v.Body, v.BodyHash, millis(v.CreatedAt))
}

// MoveTask implements store.TaskTx. Unlike other moves it sets all that it names, empty or not: a Task that waits
// again has no replica.
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
