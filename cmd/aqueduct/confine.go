// Keeping secrets from agents. An agent runs commands that its model made up, as a process of this machine; without a
// boundary it could read the token and approve its own calls. The means are an account of its own (--acp-user) and
// Landlock.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aqueduct/acpgateway/proxy"
	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
)

// confineFlags are what agents that this process runs are kept from. They are shared by serve, for --acp, and by
// proxy.
type confineFlags struct {
	ACPUser    string   `name:"acp-user" help:"Account that agents and commands of --mcp run as, where this is root: its files and processes are all they reach." placeholder:"USER"`
	ACPConfine string   `name:"acp-confine" enum:"auto,require,off" default:"auto" help:"Keep the token, keys and database from agents and commands of --mcp, by Landlock and --acp-user: auto as far as that is possible, with a warning where it is not; require refuses to start then; off does not."`
	ACPEnv     []string `name:"acp-env" help:"Name of a variable that agents inherit although it looks like a secret, as in ANTHROPIC_API_KEY; repeatable." placeholder:"NAME"`

	settingsFile ownfile.Secret
}

// AfterApply implements kong's hook: the settings file may hold passwords.
func (f *confineFlags) AfterApply(set *settings) error {
	f.settingsFile = ownfile.Secret(set.path)
	return nil
}

// confineName is the argument by which this program applies Landlock to itself and becomes an agent.
const confineName = "confine"

// confineSelf is that: it returns only with an error. args are those of Confinement.Wrap, "--", and the command. The
// helper is a second start of this program: Landlock binds a process and its children and cannot be taken back, so
// the server itself must not enter it.
func confineSelf(args []string) error {
	confined, command, err := child.ReadArgs(args)
	if err != nil {
		return err
	}
	return confined.Confine(command)
}

// confinement is what keeps the secrets from agents. They work in the directories work, or in new ones below
// workspaces. Either means is enough; the error or warning names what stands in the way of both. nil with no error is
// an agent that runs unconfined.
func (f *confineFlags) confinement(secrets, work []string, workspaces string, log *slog.Logger) (*child.Confinement, error) {
	if f.ACPConfine == "off" {
		if f.ACPUser != "" {
			return nil, errors.New("--acp-user and --acp-confine off contradict each other")
		}
		log.Warn("--acp-confine off: agents can read the token, keys and database, and this process's environment and memory")
		return nil, nil
	}
	c := &child.Confinement{}
	home, _ := os.UserHomeDir() // without one no agent writes to it
	if f.ACPUser != "" {
		user, err := child.LookupUser(f.ACPUser)
		if err != nil {
			return nil, fmt.Errorf("--acp-user: %w", err)
		}
		c.User, home = user, user.Home
	}
	// What agents need for their work, which protection must leave to them.
	// A protected path below one of them cannot be kept by Landlock, and a directory that holds one of them is not
	// protected whole.
	used := append(slices.Clone(work), workspaces, home, os.TempDir())
	c.Protect = protected(secrets, used)
	why := "this kernel has no Landlock"
	if child.LandlockWorks() {
		// Landlock grants by directory: what lies below one that agents need cannot be taken out of it.
		if left := c.Unprotectable(used); len(left) > 0 {
			why = strings.Join(left, ", ") + " lies below a directory that agents write to"
		} else {
			// The running program and not its path: an update may have replaced that meanwhile.
			c.Helper = []string{"/proc/self/exe", confineName}
		}
	}
	if c.User == nil && len(c.Helper) == 0 {
		if f.ACPConfine == "require" {
			return nil, fmt.Errorf("--acp-confine require: agents cannot be confined, because %s; use --acp-user as root, or keep the data elsewhere", why)
		}
		log.Warn("agents run unconfined: they can read the token, keys and database, and this process's environment and memory; use --acp-user as root, or keep the data outside of the agents' folders, home and temporary files",
			slog.String("because", why))
		return nil, nil
	}
	return c, f.check(c, work)
}

// check tries what a confined process can read, and refuses a confinement that does not hold. It is tried and not
// computed, because rights come from modes, ACLs, groups and mounts. What cannot be found yet is skipped: a database
// that does not exist holds no secret.
func (f *confineFlags) check(c *child.Confinement, dirs []string) error {
	var files []string
	for _, path := range c.Protect {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		// SQLite makes its files with the umask's mode, and -wal and -shm with that of the database.
		if c.User != nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && strings.Contains(filepath.Base(path), ".db") {
			if err := os.Chmod(path, 0o600); err != nil {
				return err
			}
		}
		files = append(files, path)
	}
	var usable []string
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			usable = append(usable, dir)
		}
	}
	readable, unusable, err := c.Readable(files, usable)
	switch {
	case err != nil:
		return err
	case len(readable) > 0:
		return fmt.Errorf("agents could read %s: take the rights of others away (chmod 0600, or 0700 of its directory)", strings.Join(readable, ", "))
	case len(unusable) > 0 && c.User != nil:
		return fmt.Errorf("user %s cannot write to %s, where its agents work: give it to that user (chown -R), or use --acp-workspaces", c.User.Name, strings.Join(unusable, ", "))
	}
	return nil
}

// protected are the secrets and, where agents use nothing in it, the directories that these lie in: a database makes
// files beside itself, and a new key comes beside the old. Directories are protected rather than files where
// possible: SQLite makes -wal and -shm files later, and a rotated key is a new file.
func protected(secrets, used []string) []string {
	var list []string
	for _, path := range secrets {
		if path == "" {
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		dir := filepath.Dir(whole)
		if ofOurs(dir) && len((&child.Confinement{Protect: []string{dir}}).Below(used)) == 0 {
			whole = dir
		}
		if !slices.Contains(list, whole) {
			list = append(list, whole)
		}
	}
	return list
}

// ofOurs reports whether a directory holds data of this program alone, by its name. A home directory or a mount is
// never protected whole: agents need most of it.
func ofOurs(dir string) bool {
	name := filepath.Base(dir)
	return name == "data" || strings.Contains(name, "aqueduct")
}

// files are those that the flags name, and those of their defaults.
func (s *serveCmd) files() []ownfile.File {
	files := ownFiles(s, os.LookupEnv)
	// Where no flag names them. Those that a flag names are kept twice.
	for _, path := range []string{
		s.Database.beside(s.ACP.Key, tokenName), s.auditKeyFile(), s.auditHeadsFile(), s.Redact.keyFile(s.Database), s.Blobs.folder(s.Database),
	} {
		if path != "" {
			files = append(files, ownfile.File{Path: path, Secret: true, Setting: "the server's files"})
		}
	}
	return files
}

// confineLocal is the confinement of the agents of --acp; nil without any. With workspaces the agents work in folders
// that do not exist yet, so there are none to try.
func (s *serveCmd) confineLocal(log *slog.Logger) (*child.Confinement, error) {
	if len(s.ACP.ACP) == 0 {
		return nil, nil
	}
	var work []string
	if s.ACP.ACPWorkspaces == "" {
		for _, a := range s.ACP.ACP {
			work = append(work, cmp.Or(s.ACP.ACPAgents.byID[a.id].Cwd, s.ACP.ACPCwd))
		}
	}
	files := s.files()
	c, err := s.ACP.Confine.confinement(secretsOf(files), absolute(work), s.ACP.ACPWorkspaces, log)
	if err != nil {
		return nil, err
	}
	if err := s.ACP.Confine.keep(c, files, absolute(append(work, s.ACP.ACPWorkspaces))); err != nil {
		return nil, err
	}
	if err := s.ACP.Confine.keepSocket(c, s.Database, log); err != nil {
		return nil, err
	}
	s.ACP.together = !s.ACP.Confine.apart(c, s.ACP.ACPWorkspaces, log)
	return c, nil
}

// confineServers is the confinement of the commands of --mcp. They work where the server was started, and are not tried
// there: what they write to is theirs to know. The one of --wrap is not confined: the client would start it unconfined as well.
func (s *serveCmd) confineServers(log *slog.Logger) (*child.Confinement, error) {
	if s.wraps {
		return nil, nil
	}
	files := s.files()
	c, err := s.ACP.Confine.confinement(secretsOf(files), nil, "", log)
	if err != nil {
		return nil, err
	}
	if err := s.ACP.Confine.keep(c, files, nil); err != nil {
		return nil, err
	}
	return c, s.ACP.Confine.keepSocket(c, s.Database, log)
}

// absolute leaves out paths that are empty or have no absolute form.
func absolute(paths []string) []string {
	var list []string
	for _, path := range paths {
		if whole, err := filepath.Abs(path); err == nil && path != "" {
			list = append(list, whole)
		}
	}
	return list
}

// confinement is that of a proxy on a machine of its own; its secrets are its tokens.
func (c *proxyCmd) confinement(cfg proxy.Config) (*child.Confinement, error) {
	work := []string{c.AgentHome}
	if c.Workspaces == "" {
		work = append(work, cmp.Or(c.Cwd, "."))
	}
	files := ownFiles(c, os.LookupEnv)
	if cfg.State != "" {
		files = append(files, ownfile.File{Path: filepath.Join(cfg.State, "token"), Secret: true, Setting: "--state"})
	}
	confined, err := c.Confine.confinement(secretsOf(files), absolute(work), c.Workspaces, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := c.Confine.keep(confined, files, absolute(append(work, c.Workspaces))); err != nil {
		return nil, err
	}
	c.Confine.apart(confined, c.Workspaces, cfg.Log)
	return confined, nil
}
