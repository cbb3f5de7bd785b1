package acpgateway

import (
	"slices"
	"time"

	"aqueduct/acpgateway/acp"
)

// discard takes what nobody will read: frames that can mean nothing for a chat any more, when
// the agent is gone, no Turn reads, and all that came before them is kept. Their proxy may
// forget them then, and so may we. A Turn from before a restart may want them, and is given
// time to say so.
func (t *tunnel) discard(now time.Time) {
	t.mu.Lock()
	rests := t.turn == nil && !t.opened && len(t.prompts) == 0 && now.Sub(t.used) > orphanWait && t.kept >= t.read
	n := 0
	for rests && n < len(t.queue) && t.queue[n].spent() {
		t.bytes -= t.queue[n].size
		t.read = t.queue[n].after(t.read)
		n++
	}
	if n == 0 {
		t.mu.Unlock()
		return
	}
	at, seq := t.queue[n-1].at, t.read
	t.queue, t.kept = slices.Clone(t.queue[n:]), max(t.kept, seq)
	hints := t.takeHints(at)
	t.mu.Unlock()
	t.p.ack(t.id, t.p.epoch(), seq)
	t.g.tell(t.owner, hints)
}

// spent says whether a frame of an agent that is gone means nothing any more. What it says of
// the state of things is on record, and the next agent says it anew; how full its context was,
// too. Other state, such as a title, may be said once only, and waits.
func (f frame) spent() bool {
	switch m := f.Frame.(type) {
	case nil, *restarted, *acp.Opened, *acp.Closed, *acp.Exit, *acp.SessionControlResult, *acp.SandboxControlResult:
		return true
	case *acp.ACPUpdate:
		return acp.ReadUpdate(m.Update).Variant == acp.Usage
	case *acp.ProxyUpdate:
		s, err := acp.DecodeSignal(m.Content)
		return err == nil && ofTheAgentGone(s)
	}
	return false
}

func ofTheAgentGone(s acp.Signal) bool {
	switch s.(type) {
	case *acp.Text, *acp.InstanceStatus, *acp.TransportConnected, *acp.TransportDisconnected, *acp.InitStep, *acp.InitResult, *acp.PermissionCancelled:
		return true
	}
	return false
}
