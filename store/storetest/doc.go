// Package storetest is the contract of store.Store as tests, and the databases to run
// them, and any other test, against.
package storetest
