// Package auth identifies callers. Every way to call becomes a Caller: a Principal, and the kind of credential that named
// it, so that a route can refuse a kind that is not meant for it.
//
// There are five ways: the static token of an installation of one user (static.go), typed tokens signed with the key
// file (keys.go, token.go), API keys (manage.go), bearer tokens of an OpenID provider (oidc*.go), and browser sessions,
// which are cookies that stand for one of the others (cookie.go), with a secret that their page shows beside them (page.go). Auth picks the way by the form of what was shown
// (auth.go), and the Registry refuses what is revoked (registry.go). Tokens of agents and proxies make no Caller: their
// own routes take them, and everywhere else they are refused.
//
// The package decides who calls and not what a caller may do: which kinds and roles a route takes is in server/route,
// and what a Principal sees is a store.Scope. Secrets are in the operator's files and in memory; the store has ids, and
// hashes of API keys.
package auth
