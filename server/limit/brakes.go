// This file has the rates of one server, by principal and by address, and the codes under which all limits refuse.

package limit

import (
	"time"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// AddressShare is how many principals' worth one address may do: an office behind one NAT, or
// a reverse proxy, is one address to us.
const AddressShare = 4

// Brakes are the limits on how often something may be done.
type Brakes struct {
	Runs, Decisions, Invokes Action
	Failures                 *Brake // by address
	Meter                    *Meter
}

// Action limits one kind of action, by principal and by address.
type Action struct {
	name        string
	byPrincipal *Brake
	byAddress   *Brake
}

// NewBrakes makes the brakes of one server; meter counts what they refuse.
func NewBrakes(l Limits, meter *Meter) *Brakes {
	of := func(name string, r Rate) Action {
		wider := Rate{PerSecond: AddressShare * r.PerSecond, Burst: AddressShare * r.Burst}
		return Action{name, NewBrake(r), NewBrake(wider)}
	}
	return &Brakes{
		Runs: of("runs", l.Runs), Decisions: of("decisions", l.Decisions), Invokes: of("invokes", l.Invokes),
		Failures: NewBrake(l.Failures), Meter: meter,
	}
}

// Take counts one action of a principal that came from an address. The error is a *TooOften, with the time after
// which to try again. What the address refuses has been taken from the principal's bucket already, which refills
// soon.
func (b *Brakes) Take(a Action, who store.Principal, remote string) error {
	wait, ok := a.byPrincipal.Take(who.Tenant + "\x00" + who.User)
	if ok {
		wait, ok = a.byAddress.Take(Address(remote))
	}
	if ok {
		return nil
	}
	b.Meter.Refused(a.name)
	return &TooOften{After: wait}
}

// TooOften is the error of an action that one principal or one address did too often; it may be tried again After that time.
type TooOften struct{ After time.Duration }

// Error implements error.
func (e *TooOften) Error() string { return TooManyRequests + ": again after " + e.After.String() }

// The codes under which limits refuse. server/problem has their HTTP statuses.
const (
	TooManyRequests = "too_many_requests"
	BusyBodies      = "too_many_bodies"
	ShuttingDown    = "shutting_down"
	TooManyStreams  = "too_many_streams"
	TooManySockets  = "too_many_sockets"
)

// refuse makes the error of a code; its message is the one that server/problem has for it.
func refuse(code string) error { return fault.New(code, "") }
