-- +goose Up
-- Which policy was in force last, for the server that starts or follows it. Keep this file and its twin under sqlite/ the
-- same; a test compares them.
CREATE INDEX audit_policy ON audit (seq) WHERE subject_type = 'policy';

-- +goose Down
DROP INDEX audit_policy;
