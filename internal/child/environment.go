package child

import (
	"os"
	"path"
	"slices"
	"strings"
)

// secretNames are the names of variables that a child does not inherit: they are where secrets of ours and of the operator's
// stand. What a child needs of them the operator names.
var secretNames = []string{
	"AQUEDUCT_*", "PG*", "DATABASE_URL", "*TOKEN*", "*KEY*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*DSN*",
}

// isSecret reports whether a variable of a name is not inherited. The case does not matter.
func isSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretNames, func(pattern string) bool {
		matched, _ := path.Match(pattern, name) // the patterns are good
		return matched
	})
}

// Inherited is what of this process's environment a child gets: all but what looks like a secret, and of that what pass
// names.
func Inherited(pass []string) []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		// Ours are never passed on: a setting of the server may hold a secret under any name.
		return isSecret(name) && (strings.HasPrefix(name, "AQUEDUCT_") || !slices.Contains(pass, name))
	})
}
