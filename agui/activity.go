package agui

import "encoding/json"

// ActivitySnapshot shows an activity, Content being a JSON object. Replace
// absent means true; false keeps what a client already shows.
type ActivitySnapshot struct {
	Sub
	MessageID    string
	ActivityType string
	Content      json.RawMessage
	Replace      *bool
}

// ActivityDelta changes an activity's content by a JSON Patch (RFC 6902).
type ActivityDelta struct {
	Sub
	MessageID    string
	ActivityType string
	Patch        json.RawMessage
}

// EventType is ACTIVITY_SNAPSHOT.
func (*ActivitySnapshot) EventType() Type { return TypeActivitySnapshot }

// EventType is ACTIVITY_DELTA.
func (*ActivityDelta) EventType() Type { return TypeActivityDelta }

// AppendJSON implements [Event].
func (e *ActivitySnapshot) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "activityType", e.ActivityType)
	if len(e.Content) == 0 {
		dst = append(appendKey(dst, "content"), '{', '}')
	} else {
		dst = appendRawMember(dst, "content", e.Content)
	}
	if e.Replace != nil {
		dst = appendBool(appendKey(dst, "replace"), *e.Replace)
	}
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ActivityDelta) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "activityType", e.ActivityType)
	dst = appendPatch(dst, "patch", e.Patch)
	return e.appendTail(dst)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

func (e *ActivitySnapshot) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "activityType":
		return decodeString(&e.ActivityType, raw)
	case "content":
		return decodeObject(&e.Content, raw)
	case "replace":
		return decodeBool(&e.Replace, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ActivityDelta) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "activityType":
		return decodeString(&e.ActivityType, raw)
	case "patch":
		return decodeArray(&e.Patch, raw)
	}
	return e.Sub.member(key, raw)
}
