// The command line: its commands, and how flags, environment and settings file become one set of values. Each
// command's flags are in the file that has its Run.

package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

// cli is the command line. Every flag can also be given as AQUEDUCT_<FLAG> or in the file of --config; the command
// line goes before the environment, that before the file. kong calls the Run of the command that was given, with what
// run binds: the context, the outputs and the settings.
type cli struct {
	Config configFlag `help:"Settings file, YAML or JSON, flags' names as keys." placeholder:"FILE"`

	Serve   serveCmd          `cmd:"" help:"Serve chats."`
	Proxy   proxyCmd          `cmd:"" help:"Run ACP agents here for a gateway elsewhere."`
	Migrate migrateCmd        `cmd:"" help:"Bring a database up to date and leave."`
	Token   tokenCmd          `cmd:"" help:"Make tokens."`
	Account serviceAccountCmd `cmd:"" name:"service-account" help:"Manage programs that call with an API key."`
	Audit   auditCmd          `cmd:"" help:"Check the record of who did what."`
	Policy  policyCmd         `cmd:"" help:"Try policy files."`
	Tail    tailCmd           `cmd:"" help:"Print the events of a run or a thread as they come."`
	Export  exportCmd         `cmd:"" help:"Write a run or a thread to a file that replay serves again."`
	Replay  replayCmd         `cmd:"" help:"Serve an exported file as a live AG-UI endpoint."`
	Doctor  doctorCmd         `cmd:"" help:"Examine any AG-UI endpoint from outside."`
	MCP     mcpCmd            `cmd:"" name:"mcp" help:"Answer an MCP client over standard streams: by a running server, or as the gate before one MCP server."`
	Version versionCmd        `cmd:"" help:"Print the version."`
}

// exitUsage is the exit code of a command line that is none: 1 is what a command found or failed at.
const exitUsage = 2

// run is the program. It is apart from main so that tests run whole commands in one process. --help ends the parsing
// by a flag, because kong would otherwise end the process.
func run(ctx context.Context, args []string, env lookup, to output) error {
	var (
		flags  cli
		helped bool
		set    = &settings{env: env}
	)
	to = output{onTerminal(to.out), onTerminal(to.log)}
	// The environment's file is read before the flags are parsed. One of --config takes its place (configFlag).
	// A flag of --config has not been seen yet here, so a file that it replaces must be good as well.
	if path, ok := env(envName("config")); ok {
		if err := set.load(path); err != nil {
			return err
		}
	}
	parser, err := kong.New(&flags,
		kong.Name("aqueduct"),
		kong.Description("Stands between AI agents and chat frontends: keeps every event, serves it to any client."),
		kong.Writers(to.out, to.log),
		kong.Exit(func(int) { helped = true }),
		kong.ValueFormatter(withEnvName),
		kong.Resolvers(set), kong.Bind(set),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(to),
	)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if helped {
		return nil
	}
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("%w (see aqueduct --help)", err)}
	}
	if set.earlier != nil {
		if err := set.earlier(); err != nil {
			return err
		}
	}
	return parsed.Run()
}
