// Package auth says who is calling. Every way to call becomes a Caller: a Principal, and
// the kind of credential that named it, so that a route can refuse a kind that is not
// meant for it.
package auth
