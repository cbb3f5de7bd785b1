// This file looks into a request before the library does, for what has to be known before a server is made for it:
// which tools it needs, how many messages it has, and whether it gives up another request.

package mcpserver

import (
	"bytes"
	"encoding/json"
)

// wanted is what the messages of a request ask for.
type wanted struct {
	list     bool
	calls    []string // names of tools
	messages int
	// Of a request that is one message, as nearly all are:
	id      string // the JSON of its id; "" for a notification
	begins  bool   // the client introduces itself
	givesUp string // the JSON of the id of the request that it gives up
}

// message is what is read of one: of a request, a notification or an answer. An id is kept as JSON, because 1 and "1"
// are two.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name      string
		RequestID json.RawMessage
	}
}

// wantedBy reads as much of a body as that takes. What cannot be read here the protocol's library refuses.
func wantedBy(body []byte) (w wanted) {
	all := []json.RawMessage{body}
	batch := bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) // until the revision of June 2025
	if batch {
		all = nil
		_ = json.Unmarshal(body, &all)
	}
	w.messages = len(all)
	for _, raw := range all {
		var m message
		_ = json.Unmarshal(raw, &m)
		if !batch {
			w.id, w.begins = string(m.ID), m.Method == "initialize"
		}
		switch m.Method {
		case "notifications/cancelled":
			if !batch {
				w.givesUp = string(m.Params.RequestID)
			}
		case "tools/list":
			w.list = true
		case "tools/call":
			w.calls = append(w.calls, m.Params.Name)
		}
	}
	return w
}
