package acpgateway_test

import (
	"encoding/json"
	"strings"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// grants are those that are kept.
func (h *acpEnv) grants() []store.Grant {
	h.t.Helper()
	list, err := h.store.Grants(h.t.Context(), store.System(), store.Page{Limit: 10})
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// asksLike asks under another request and call for what a command does.
func (c *conversation) asksLike(request, call, command string) {
	f := c.request(request, command)
	f.Content = json.RawMessage(strings.Replace(string(f.Content), `"toolCallId":"`+command+`"`, `"toolCallId":"`+call+`"`, 1))
	c.p.send(f)
}

// allowed fails the test unless the agent is sent its option to allow a request once.
func (c *conversation) allowed(request wire.RequestID) {
	c.p.h.t.Helper()
	said := want[*wire.SessionPermission](c.p)
	if said.RequestID != request || said.Outcome != "selected" || said.OptionID == nil || *said.OptionID != "p-once" {
		c.p.h.t.Errorf("%+v", said)
	}
}
