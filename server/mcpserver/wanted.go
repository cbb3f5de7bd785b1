package mcpserver

import (
	"bytes"
	"encoding/json"
)

// wanted is what the messages of a request ask for.
type wanted struct {
	list  bool
	calls []string // names of tools
	// Of a request that is one message, as nearly all are:
	id      string // the JSON of its id; "" for a notification
	begins  bool   // the client introduces itself
	givesUp string // the JSON of the id of the request that it gives up
}

// message is what is read of one.
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
	var all []message
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' { // a batch, until the revision of June 2025
		_ = json.Unmarshal(body, &all)
	} else {
		all = make([]message, 1)
		_ = json.Unmarshal(body, &all[0])
		w.id, w.begins = string(all[0].ID), all[0].Method == "initialize"
		if all[0].Method == "notifications/cancelled" {
			w.givesUp = string(all[0].Params.RequestID)
		}
	}
	for _, m := range all {
		switch m.Method {
		case "tools/list":
			w.list = true
		case "tools/call":
			w.calls = append(w.calls, m.Params.Name)
		}
	}
	return w
}
