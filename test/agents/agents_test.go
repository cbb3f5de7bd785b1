// Package agents_test runs real ACP agents, with a scripted model in the place of the one
// they would call, first behind our acp-proxy alone and then behind the whole program, where
// the official AG-UI client judges what arrives. Nothing here leaves the loopback.
package agents_test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// patience bounds what a test waits for; agents start slowly on a machine that is busy.
const patience = 60 * time.Second

// scratch is the folder of what the tests build; TestMain makes and removes it.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "aqueduct-agents"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}
