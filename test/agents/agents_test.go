// Package agents_test runs real ACP agents, with a scripted model in the place of the one
// they would call, first behind our acp-proxy alone and then behind the whole program, where
// the official AG-UI client judges what arrives. Nothing here leaves the loopback.
package agents_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"aqueduct/test/program"
)

// patience bounds what a test waits for; agents start slowly on a machine that is busy.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asFlag {
		fmt.Fprintln(os.Stderr, become(os.Args[2:]))
		os.Exit(127)
	}
	os.Exit(program.Main(m))
}
