-- +goose Up
-- The roles of who prompted, a JSON list: rules of the policy ask for them. Keep this file and its twin under postgres/ the
-- same; a test compares them.
ALTER TABLE turns ADD COLUMN roles TEXT CHECK (roles IS NULL OR json_valid(roles));

-- +goose Down
ALTER TABLE turns DROP COLUMN roles;
