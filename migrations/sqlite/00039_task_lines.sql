-- +goose Up
-- The queue is read by lines: what waits of one user for one agent. tasks_line finds the lines and the oldest task of each,
-- tasks_next what is next in one. Keep this file and its twin under the other database's folder the same.

DROP INDEX tasks_status;
CREATE INDEX tasks_line ON tasks (status, agent_id, tenant, user_id, task_id);
CREATE INDEX tasks_next ON tasks (status, tenant, user_id, agent_id, priority DESC, task_id);

-- +goose Down
DROP INDEX tasks_next;
DROP INDEX tasks_line;
CREATE INDEX tasks_status ON tasks (status, tenant, user_id, agent_id, priority, task_id);
