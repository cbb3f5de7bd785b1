// Package store defines what Aqueduct keeps and under which rules: the records, the
// machines they move through, and the contract a database must honour. It holds no
// SQL; store/sqldb does, once for both databases.
//
// Two kinds of writers exist. The replica that owns a Session appends Events and
// moves its Turns, Runs, ToolCalls and Approvals, always through one fenced Batch.
// Everybody else writes a request (a reserved Run, a decision, a command) inside
// InTx and rings the Session's bell. Every change of a status is a compare-and-set.
package store
