// aqueduct version, and how the program names its build to others: in handshakes of MCP, in spans, to the gateway.

package main

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
)

// versionCmd prints the version of the build.
type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(to output) error {
	_, err := fmt.Fprintln(to.out, "aqueduct", version())
	return err
}

// release is the version that is being worked on: of the next release until it is tagged. It is what a build outside
// of a tag calls itself, with -dev behind it.
const release = "0.1.0"

// version names the build: the tag it was built at, or the coming release and the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release + "-dev"
	}
	return versionOf(info)
}

// versionOf reads what the build knows of itself. A build outside a repository, as of a container's sources, knows nothing
// and would call itself (devel); one between two tags has a version that Go made up.
func versionOf(info *debug.BuildInfo) string {
	tagged := regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)
	// A version that Go makes up for a commit has the form v0.1.1-0.20260102030405-abcdef012345.
	madeUp := regexp.MustCompile(`[0-9]{14}-[0-9a-f]{12}$`)
	if v := info.Main.Version; tagged.MatchString(v) && !madeUp.MatchString(v) {
		return strings.TrimPrefix(v, "v")
	}
	var commit, dirty string
	// Go records these when it builds inside a repository.
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= shortCommit:
			commit = "+" + s.Value[:shortCommit]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if commit == "" {
		return release + "-dev"
	}
	return release + "-dev" + commit + dirty
}

// shortCommit is how much of a commit's hash names it.
const shortCommit = 12
