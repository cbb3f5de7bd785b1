package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aqueduct/acpgateway/wire"
)

// A push reads a repository that an agent may have written, with the operator's credentials at hand. Its configuration names
// commands in a dozen places (hooks, core.sshCommand, credential helpers, remote.*.receivepack, url.*.insteadOf to the ext
// transport, …), and new versions of git add more. So git never pushes from there: it reads the branch's commit and the
// remote's URL, which runs nothing, and pushes from an empty repository of ours that borrows the objects.

const (
	pushTimeout = 300 * time.Second
	// gitProtocols are those git may speak: none that runs a command of the URL's (ext), or is unauthenticated (git).
	gitProtocols = "file:http:https:ssh"
)

// remoteName is the name of a remote. It cannot be read as a path, a URL or an option.
var remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// branchName is the name of a branch: no refspec, and no option.
var branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/@#=,-]{0,249}$`)

// ofRepository are settings of the repository that is read which could run a command even so, switched off.
var ofRepository = []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.alternateRefsCommand=true"}

// receivePack is the other end of a push to a local repository, which is a process of this host as well: it runs no hook,
// and starts no collection of garbage, which has hooks of its own.
const receivePack = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true -c receive.autogc=false receive-pack"

// gitPush pushes a branch from the workspace to a remote that is configured there.
func (sb *sandboxes) gitPush(ctx context.Context, f *wire.SandboxControl) outcome {
	remote := cmp.Or(f.Remote, "origin")
	switch {
	case len(f.Env) > 0:
		return outcome{err: errors.New("git_push takes no environment: it would name commands to run on this host")}
	case !remoteName.MatchString(remote):
		return outcome{err: errors.New("git_push needs the name of a configured remote, which is no path and no URL")}
	case !branchName.MatchString(f.Branch):
		return outcome{err: errors.New("git_push needs the name of a branch")}
	}
	w := sb.workspaces.of(f.RunID)
	dir, err := w.dir(f.Cwd)
	if err != nil {
		return outcome{err: err}
	}
	timeout := pushTimeout
	if f.TimeoutSeconds > 0 {
		timeout = time.Duration(min(f.TimeoutSeconds, 3600)) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("git push took too long"))
	defer cancel()
	push := &pushing{launch: sb.launch.of(w), ctx: ctx, dir: dir}
	defer push.clean()
	o := push.run(remote, f.Branch)
	if o.err == nil {
		sb.link.send(f.RunID, &wire.BranchCreated{RunID: f.RunID, Branch: f.Branch})
	}
	return o
}

// pushing is one push.
// The steps: read commit and URL, make an empty repository, push from it with the agent's objects borrowed, remove it.
type pushing struct {
	launch *launcher
	ctx    context.Context
	dir    string // in the agent's repository
	temp   string // the repository that is pushed from; "" until it is made
	// objects is where the agent's repository has its objects; shallow is the file that names where its history ends, if it is cut.
	objects, shallow string
	o                outcome
}

func (g *pushing) run(remote, branch string) outcome {
	commit, err := g.read("show-ref", "--verify", "--hash", "--", "refs/heads/"+branch)
	if err != nil {
		return g.fail("there is no branch of that name", err)
	}
	urls, err := g.urls(remote)
	if err != nil {
		return g.fail("no remote of that name is configured", err)
	}
	top, err := g.prepare()
	if err != nil {
		return g.fail("the repository cannot be read", err)
	}
	for _, url := range urls {
		if err := g.push(top, url, commit+":refs/heads/"+branch); err != nil {
			g.o.err = err
			return g.o
		}
	}
	// What git would have noted itself. It is no failure of the push where it cannot be.
	_, _ = g.read("update-ref", "refs/remotes/"+remote+"/"+branch, commit)
	return g.o
}

// fail ends the push with what could not be done, and git's own words behind it.
func (g *pushing) fail(what string, err error) outcome {
	g.o.err = fmt.Errorf("git push: %s: %w", what, err)
	return g.o
}

// urls are where a push to the remote goes. Rewriting by the repository's url.*.insteadOf is left out: it may name any
// transport.
// What begins with a dash would be an option, and "x::" names a transport that runs a program.
func (g *pushing) urls(remote string) ([]string, error) {
	text, err := g.read("config", "--get-all", "remote."+remote+".pushurl")
	if err != nil || text == "" {
		if text, err = g.read("config", "--get-all", "remote."+remote+".url"); err != nil {
			return nil, err
		}
	}
	urls := strings.Split(text, "\n")
	for _, url := range urls {
		if url == "" || strings.HasPrefix(url, "-") || strings.Contains(url, "::") {
			return nil, errors.New("its URL is none that is pushed to from here")
		}
	}
	return urls, nil
}

// push pushes to one address. Borrowed objects, and where a shallow history ends, are all that comes from the agent's
// repository.
func (g *pushing) push(top, url, refs string) error {
	args := []string{"--git-dir=" + g.temp, "push", "--no-verify", "--no-signed", "--recurse-submodules=no"}
	if local(url) {
		args = append(args, "--receive-pack="+receivePack)
	}
	cmd := g.launch.gitCommand(top, append(args, "--", url, refs)...)
	cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+strconv.Quote(g.objects))
	if g.shallow != "" {
		cmd.Env = append(cmd.Env, "GIT_SHALLOW_FILE="+g.shallow)
	}
	var err error
	g.o.exit, err = runGroup(g.ctx, cmd, tailOf(&g.o.stdout), tailOf(&g.o.stderr))
	if err == nil {
		err = failed("git push", g.o.exit)
	}
	return err
}

// local reports whether git takes a URL for a path of this host, by git's own rule.
func local(url string) bool {
	colon := strings.IndexByte(url, ':')
	slash := strings.IndexByte(url, '/')
	return strings.HasPrefix(url, "file://") || colon < 0 || slash >= 0 && slash < colon
}

// prepare makes the repository that is pushed from, and returns where relative URLs of the agent's begin. It is made by this
// process and readable only, so that an agent with a user of its own cannot change it.
// The format of the objects must be the same (SHA-1 or SHA-256), or none of them could be read.
func (g *pushing) prepare() (top string, err error) {
	text, err := g.read("rev-parse", "--path-format=absolute", "--show-object-format", "--is-shallow-repository", "--git-common-dir", "--git-path", "objects")
	if err != nil {
		return "", err
	}
	// One line for each question above, in their order.
	said := strings.Split(text, "\n")
	if len(said) != 4 {
		return "", errors.New("git says something else of it")
	}
	if g.objects = said[3]; said[1] == "true" {
		g.shallow = filepath.Join(said[2], "shallow")
	}
	if top, err = g.read("rev-parse", "--show-toplevel"); err != nil {
		top = g.dir // a bare repository has none
	}
	if g.temp, err = os.MkdirTemp("", "aqueduct-push-"); err != nil {
		return "", err
	}
	// Where the agents have a user of their own, git runs as that one and has to read it; MkdirTemp gives 0700.
	if err := os.Chmod(g.temp, 0o755); err != nil {
		return "", err
	}
	// It runs as this process, which owns the folder, and so without the configuration of any user or host.
	init := exec.CommandContext(g.ctx, "git", "init", "--quiet", "--bare", "--template=", "--object-format="+said[0], g.temp)
	init.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	return top, init.Run()
}

// clean removes the repository that was pushed from, on every way out.
func (g *pushing) clean() {
	if g.temp != "" {
		_ = os.RemoveAll(g.temp) // an empty repository in the folder for such things
	}
}

// read runs a command of git in the agent's repository that only looks at it.
func (g *pushing) read(args ...string) (string, error) {
	var stdout, stderr string
	exit, err := runGroup(g.ctx, g.launch.gitCommand(g.dir, slices.Concat(ofRepository, args)...), tailOf(&stdout), tailOf(&stderr))
	if err == nil && (exit.Signal != nil || *exit.ExitCode != 0) {
		err = errors.New(cmp.Or(strings.TrimSpace(stderr), "git failed"))
	}
	return strings.TrimSpace(stdout), err
}

// gitCommand is git with nothing in its environment that names a command of git's or the loader's.
func (la *launcher) gitCommand(dir string, args ...string) *exec.Cmd {
	cmd := la.command("git", args...)
	cmd.Dir = dir
	for _, pair := range la.environment(&wire.Init{}) {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case strings.HasPrefix(name, "GIT_"), strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "DYLD_"), name == "SSH_ASKPASS":
		default:
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL="+gitProtocols, "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	return cmd
}
