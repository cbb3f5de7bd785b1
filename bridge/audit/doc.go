// Package audit says who did what, in a chain of hashes: the store keeps it append-only,
// and whoever changes, takes away or slips in an entry all the same is found by Verify.
package audit
