// This file has the events that show an activity: a block of a page that is not a message, such as a
// plan or a progress bar.

package agui

import "encoding/json"

// ActivitySnapshot shows an activity, Content being a JSON object. Replace
// absent means true; false keeps what a client already shows.
type ActivitySnapshot struct {
	Sub
	MessageID    string          `agui:"messageId,required"`
	ActivityType string          `agui:"activityType,required"`
	Content      json.RawMessage `agui:"content,required,object"`
	Replace      *bool           `agui:"replace"`
}

// ActivityDelta changes an activity's content by a JSON Patch (RFC 6902).
type ActivityDelta struct {
	Sub
	MessageID    string          `agui:"messageId,required"`
	ActivityType string          `agui:"activityType,required"`
	Patch        json.RawMessage `agui:"patch,required,array"`
}

// EventType is ACTIVITY_SNAPSHOT.
func (*ActivitySnapshot) EventType() Type { return TypeActivitySnapshot }

// AppendJSON implements [Event].
func (e *ActivitySnapshot) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is ACTIVITY_DELTA.
func (*ActivityDelta) EventType() Type { return TypeActivityDelta }

// AppendJSON implements [Event].
func (e *ActivityDelta) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
