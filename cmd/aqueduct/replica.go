// The label of this process among the replicas of an installation (--name).

package main

import (
	"cmp"
	"os"
)

// replicaName is the label of this process: what it was given, or the host's name. Two replicas need different names,
// or the second takes over from the first.
func replicaName(given string) string {
	host, _ := os.Hostname() // without one the last name stands
	return cmp.Or(given, host, "aqueduct")
}
