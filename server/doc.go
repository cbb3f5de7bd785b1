// Package server is Aqueduct's HTTP: requests in, pages of JSON and SSE streams out. It
// drives nothing. A handler writes down what is asked through bridge, reads rows with the
// caller's Scope, and tails the log.
//
// One file is one resource, with a handler that mounts its own routes; guard, body, problem,
// cursor and stream are what they share.
package server
