// What agents are kept from, and which places of it cannot be kept from them.

package main

import (
	"fmt"
	"os"

	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
)

// kept are the files that agents are kept from.
type kept struct {
	state    string         // the state folder, as it was named; "" for a proxy without one
	database string         // the SQLite file; "" for another database
	files    []ownfile.File // of secrets, the state folder among them, and of what configures or judges
	// another is the state folder that a server of this account takes by default, where that is not this one; "" for none.
	// Agents are kept from it where that can be: it may be left from a start that was refused.
	another string
}

// withAnother adds the default state folder where there is one beside this state.
func (k kept) withAnother() kept {
	if dir, err := defaultState(os.Getenv); err == nil && exists(dir) && (k.state == "" || child.RealPath(dir) != child.RealPath(k.state)) {
		k.another = dir
	}
	return k
}

// check refuses a state that cannot be told from what agents work on. A database outside of the state folder is one where
// agents write beside it: SQLite takes changes from a file of that folder that the agent can make. Without Landlock or an
// account of their own agents write wherever this account does.
func (k kept) check(used []string, bounded bool) error {
	if k.state == "" {
		return nil
	}
	at := func(paths ...string) *child.Confinement { return &child.Confinement{Protect: paths} }
	if held := at(k.state).Below(used); len(held) > 0 {
		return fmt.Errorf("agents write to %s, which lies in the state folder %s: give the state a folder of its own. %s", held[0], k.state, waysOut)
	}
	if k.database == "" || len(at(k.state).Below([]string{k.database})) > 0 {
		return nil
	}
	if !bounded || len(at(k.database).Unprotectable(used)) > 0 {
		return fmt.Errorf("agents write to the folder of %s, a database outside of the state folder: leave --database out, so that it lies in the folder of --state. %s", k.database, waysOut)
	}
	return nil
}

// waysOut are what a refused start can be changed to.
const waysOut = "Either give the state a folder that agents do not write to, on a kernel with Landlock: " +
	`sudo install -d -m 700 -o "$(id -un)" /var/lib/aqueduct, and --state /var/lib/aqueduct` +
	"; or, as root, give agents an account of their own (--acp-user); or say --unconfined, and an agent could approve for itself"
