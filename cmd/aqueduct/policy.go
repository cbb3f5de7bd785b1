// aqueduct policy: try a policy file before it is put in force, on written cases or on what was decided.

package main

import (
	"fmt"
	"os"

	"aqueduct/policy"
)

// policyCmd works on policy files; nothing here changes what a server does.
type policyCmd struct {
	Test   policyTestCmd   `cmd:"" help:"Try a policy file on written cases."`
	Shadow policyShadowCmd `cmd:"" help:"Show what a policy file would change about calls that were decided."`
}

// readPolicy reads a policy file.
func readPolicy(path string) (*policy.Policy, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
