package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

// cli is the command line. Every flag can also be given as AQUEDUCT_<FLAG> or in the file
// of --config; the command line goes before the environment, that before the file.
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
	Version versionCmd        `cmd:"" help:"Print the version."`
}

// run is the program.
func run(ctx context.Context, args []string, env lookup, to output) error {
	var (
		flags  cli
		helped bool
		set    = &settings{env: env}
	)
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
		return fmt.Errorf("%w (see aqueduct --help)", err)
	}
	return parsed.Run()
}
