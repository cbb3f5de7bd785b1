package trace

import (
	"time"

	"aqueduct/store"
)

// ContextChange is the payload of context_written and context_deleted. It names the entry and never shows what is in it.
type ContextChange struct {
	ContextKey  string `json:"context_key"`
	OwnerType   string `json:"owner_type"`
	OwnerID     string `json:"owner_id"`
	Version     int64  `json:"version"` // that was written, or the last one
	ContentType string `json:"content_type,omitempty"`
	Size        int64  `json:"size"`

	kind string
}

// ContextKept is an entry's new version.
func ContextKept(e store.ContextEntry) ContextChange { return contextChange(ContextWritten, e) }

// ContextDropped is an entry that was deleted.
func ContextDropped(e store.ContextEntry) ContextChange { return contextChange(ContextDeleted, e) }

func contextChange(kind string, e store.ContextEntry) ContextChange {
	return ContextChange{
		ContextKey: e.Key, OwnerType: string(e.OwnerType), OwnerID: e.OwnerID, Version: e.Version, ContentType: e.ContentType, Size: e.Size, kind: kind,
	}
}

// Record is the change on the trace of the Turn whose agent made it.
func (c ContextChange) Record(sessionID, turnID string, at time.Time) store.Record {
	return Record(c.kind, sessionID, turnID, at, c)
}
