package acpgateway

import "aqueduct/acpgateway/wire"

// stale reports whether a frame of an agent that has ended means nothing any more. What it reports of the state of things
// is on record, and the next agent reports it anew, as it does its context's use. Other state, such as a title, may be
// sent once only, and waits for a Turn.
// The list is of what is dropped, not of what is kept: an unknown frame waits for a Turn, which shows it.
func (f frame) stale() bool {
	switch f.Frame.(type) {
	case nil, *restarted, *wire.Opened, *wire.Closed, *wire.Exit, *wire.SessionControlResult, *wire.SandboxControlResult:
		return true
	case *wire.ACPUpdate:
		return f.update.Variant == wire.Usage
	}
	switch f.signal.(type) {
	case *wire.Text, *wire.InstanceStatus, *wire.TransportConnected, *wire.TransportDisconnected, *wire.InitStep, *wire.InitResult, *wire.PermissionCancelled:
		return true
	}
	return false
}
