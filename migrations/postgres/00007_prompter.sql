-- +goose Up
-- The roles of who prompted, a JSON list: rules of the policy ask for them. Keep this file and its twin under sqlite/ the
-- same; a test compares them.
ALTER TABLE turns ADD COLUMN roles JSON;

-- +goose Down
ALTER TABLE turns DROP COLUMN roles;
