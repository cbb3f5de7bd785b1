package auth

import (
	"context"

	"aqueduct/store"
)

// Kind is what sort of credential a Caller showed.
type Kind string

// The kinds of credentials.
const (
	KindNone   Kind = "none"   // nobody asked for one: a loopback listener without tokens
	KindStatic Kind = "static" // the one token of --token-file
)

// Caller is who makes a request.
type Caller struct {
	Kind      Kind
	Principal store.Principal
}

// Scope is what the Caller may see.
func (c Caller) Scope() store.Scope { return store.As(c.Principal) }

type callerKey struct{}

// With hands a Caller on to whoever serves the request.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the Caller of a request. Without one it is the zero Caller, whose Scope sees
// nothing that anybody owns.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
