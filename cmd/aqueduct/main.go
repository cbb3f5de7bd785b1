// Command aqueduct stands between AI agents and chat frontends. This folder reads flags, environment and files, makes
// the configuration of each room of them, and has internal/app put the rooms together: what they do is theirs.
//
// A flag is declared, checked and turned into configuration in one file, which is named after its subject; a mistake in
// one is an error that names the flag, and ends the start. Besides serve there are commands that work on the files of a
// server (token issue, audit, policy, migrate), some that call a running one (token list, service-account, tail), and
// the proxy for agents elsewhere. No rule of the protocol, the engine or the store is decided here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"aqueduct/acpgateway/proxy"
)

// The first arguments "confine" and "agent-files" are the helpers' own starts; they come before all parsing because their
// environment is the agent's.
func main() {
	if len(os.Args) > 1 && os.Args[1] == confineName {
		fmt.Fprintln(os.Stderr, "aqueduct:", confineSelf(os.Args[2:]))
		os.Exit(127) // as a shell reports a program that it cannot start
	}
	if len(os.Args) > 1 && os.Args[1] == proxy.FilesArgument {
		os.Exit(proxy.ServeFiles())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, but for a server's that drains (secondSignal)
	to := output{onTerminal(os.Stdout), onTerminal(os.Stderr)}
	err := run(ctx, os.Args[1:], os.LookupEnv, to)
	stop()
	if err != nil {
		fmt.Fprintln(to.log, "aqueduct:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode is the code that an error ends the program with.
func exitCode(err error) int {
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	return 1
}

// output is where a command writes: what was asked for, and the log. Commands print results to out, so that they can
// be piped, and everything else to log.
type output struct{ out, log io.Writer }
