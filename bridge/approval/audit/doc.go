// Package audit records who did what, in a chain of hashes: the store keeps it append-only,
// and Verify finds an entry that was changed, removed or slipped in all the same.
//
// Three things protect the chain, each against more than the one before. The hashes show a change to one entry. The MACs
// of a key that the database does not hold (Walk.Keys) show a chain that was written anew. A head kept elsewhere
// (Exporter, Walk.Known) shows an end that was cut off, which neither of the others can.
//
// An entry is written in the transaction of what it records (Append), or by itself where nothing is committed (Log): a
// refused attempt above all. Compare reads the chain against the tables of Approvals and Grants, and Export writes both
// into a folder that can be checked without this program. The package knows the store alone; what an action means, and
// who may do it, its callers know.
package audit
