-- +goose Up
-- The queue: prompts that wait for their Turns. Keep this file and its twin under the other database's folder the same, column
-- by column; a test compares them.

-- task_id is the id of the Turn that the task will be, request_id the client's own. status is WAITING, TAKEN, FAILED or CANCELLED.
-- body is the request, encrypted where kid names a key. Times are Unix milliseconds.
CREATE TABLE tasks (
    task_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    thread_id TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL DEFAULT 0,
    status TEXT COLLATE "C" NOT NULL,
    replica TEXT COLLATE "C" NOT NULL DEFAULT '',
    kid TEXT COLLATE "C" NOT NULL DEFAULT '',
    body BYTEA NOT NULL,
    body_hash BYTEA NOT NULL,
    code TEXT COLLATE "C" NOT NULL DEFAULT '',
    message TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tasks_request ON tasks (tenant, user_id, request_id);
CREATE INDEX tasks_thread ON tasks (tenant, user_id, thread_id, task_id);
CREATE INDEX tasks_status ON tasks (status, tenant, user_id, agent_id, priority, task_id);

-- A row that replicas lock while they choose from the queue.
CREATE TABLE queue_lock (
    id BIGINT NOT NULL PRIMARY KEY,
    rounds BIGINT NOT NULL DEFAULT 0
);
INSERT INTO queue_lock (id) VALUES (1);

-- +goose Down
DROP TABLE queue_lock;
DROP TABLE tasks;
