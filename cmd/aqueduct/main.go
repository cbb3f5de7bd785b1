// Command aqueduct stands between AI agents and chat frontends. This folder only puts
// rooms together: what they do is theirs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == confineName {
		fmt.Fprintln(os.Stderr, "aqueduct:", confineSelf(os.Args[2:]))
		os.Exit(127) // as a shell says of what it cannot start
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.LookupEnv, output{os.Stdout, os.Stderr})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "aqueduct:", err)
		os.Exit(1)
	}
}

// output is where a command writes: what was asked for, and the log.
type output struct{ out, log io.Writer }
