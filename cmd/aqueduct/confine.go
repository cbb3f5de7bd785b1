// Keeping secrets from agents. An agent runs commands that its model made up, as a process of this machine; without a
// boundary it could read the token and approve its own calls. The means are an account of its own (--acp-user), Landlock
// and namespaces.

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
	Unconfined bool     `help:"Let agents and commands of --mcp reach the token, keys and database: an agent could then approve for itself. Without this flag they are kept from the state folder, or the start is refused."`
	ACPEnv     []string `name:"acp-env" help:"Name of a variable that agents inherit although it looks like a secret, as in ANTHROPIC_API_KEY; repeatable." placeholder:"NAME"`
	ACPConfine string   `name:"acp-confine" hidden:"" help:"Not taken any more: see --unconfined."`

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

// errOldConfine is for who still gives the flag of earlier versions.
var errOldConfine = errors.New("--acp-confine is not taken any more: agents are always kept from the state folder, or the start is refused; --unconfined lets them reach it")

// unconfinedWarning is for the log of a start with --unconfined.
const unconfinedWarning = "--unconfined: agents can read the token, keys and database, and this process's environment and memory; an agent could approve for itself"

// confinement keeps the state folder and the other secrets from agents. They work in the directories work, or in new ones
// below workspaces. It returns nil with no error for agents that run unconfined, which --unconfined alone allows.
//
// The means, in this order: an account of their own (--acp-user); Landlock; and, where Landlock cannot take a path away
// because agents write to a folder above it, namespaces with an empty folder in its place.
func (f *confineFlags) confinement(kept kept, work []string, workspaces string, log *slog.Logger) (*child.Confinement, error) {
	if kept.another == "" || f.Unconfined {
		return f.confine(kept, work, workspaces, log)
	}
	all := kept
	all.files = append(slices.Clone(kept.files), ownfile.File{Path: kept.another, Secret: true, Setting: "the default state folder"})
	if c, err := f.confine(all, work, workspaces, log); err == nil {
		return c, nil
	}
	c, err := f.confine(kept, work, workspaces, log)
	if err == nil {
		log.Warn("agents can read the default state folder, which is not that of this start; end a server that runs on it, or remove it", slog.String("folder", kept.another))
	}
	return c, err
}

// confine is confinement from just those files.
func (f *confineFlags) confine(kept kept, work []string, workspaces string, log *slog.Logger) (*child.Confinement, error) {
	if f.ACPConfine != "" {
		return nil, errOldConfine
	}
	kept.files = everywhere(kept.files)
	// What agents need for their work, which protection must leave to them.
	work = append(slices.Clone(work), absolute([]string{workspaces})...)
	if f.Unconfined {
		if f.ACPUser != "" {
			return nil, errors.New("--acp-user and --unconfined contradict each other")
		}
		log.Warn(unconfinedWarning)
		return nil, keep(nil, kept.files, work)
	}
	// The running program and not its path: an update may have replaced that meanwhile.
	c := &child.Confinement{Helper: []string{"/proc/self/exe", confineName}}
	if f.ACPUser != "" {
		user, err := child.LookupUser(f.ACPUser)
		if err != nil {
			return nil, fmt.Errorf("--acp-user: %w", err)
		}
		c.User = user
	}
	// A protected path below one of them cannot be kept by Landlock, and a directory that holds one of them is not
	// protected whole.
	used := append(slices.Clone(work), homesOf(c)...)
	landlock := child.LandlockWorks()
	if err := kept.check(used, c.User != nil || landlock); err != nil {
		return nil, err
	}
	if kept.state != "" {
		c.Protect = []string{kept.state}
	}
	c.Protect = append(c.Protect, protected(kept.state, secretsOf(kept.files), used)...)
	left := c.Unprotectable(used)
	switch {
	case c.User != nil && (!landlock || len(left) > 0):
		c.Helper = nil // the account alone keeps them out: check tries that
	case !landlock:
		c.Apart, c.Hide = true, c.Protect
	default:
		c.Apart, c.Hide = len(left) > 0, left
	}
	if err := keep(c, kept.files, work); err != nil {
		return nil, err
	}
	// What Landlock takes from root it could get by settings of the kernel, which namespaces keep, and it keeps no file from
	// another mode; where there are none, Landlock alone has to do.
	if !c.Apart && len(c.Helper) > 0 && c.User == nil && (os.Geteuid() == 0 || len(c.Pinned) > 0) {
		apart := *c
		if apart.Apart = true; f.check(&apart, work) == nil {
			return &apart, nil
		}
		c.Pinned = nil
	}
	err := f.check(c, work)
	switch {
	case err == nil:
		return c, nil
	case len(c.Pinned) > 0 && len(c.Hide) == 0:
		return nil, fmt.Errorf("%s lies in a folder that agents write to, and is not kept from them there: %w. Move it out, as to /etc/aqueduct, or, as root, give agents an account of their own (--acp-user)", strings.Join(c.Pinned, ", "), err)
	}
	return nil, fmt.Errorf("agents are not kept from the state folder %s: %w. %s", kept.state, err, waysOut)
}

// homesOf are the folders that agents write to beside those they work in: their home, and that of temporary files.
func homesOf(c *child.Confinement) []string {
	home, _ := os.UserHomeDir() // without one no agent writes to it
	if c != nil && c.User != nil {
		home = c.User.Home
	}
	return []string{home, os.TempDir()}
}

// check tries what a confined process can read and change, and refuses a confinement that does not hold. It is tried and not
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
	if err != nil {
		return err
	}
	changed, err := c.Writable(slices.Concat(c.ReadOnly, c.Pinned))
	switch {
	case err != nil:
		return err
	case len(readable) > 0:
		return fmt.Errorf("agents could read %s: take the rights of others away (chmod 0600, or 0700 of its directory)", strings.Join(readable, ", "))
	case len(changed) > 0:
		return fmt.Errorf("agents could change %s: give it to another account, or move it to a folder that they do not write to", strings.Join(changed, ", "))
	case len(unusable) > 0 && c.User != nil:
		return fmt.Errorf("user %s cannot write to %s, where its agents work: give it to that user (chown -R), or use --acp-workspaces", c.User.Name, strings.Join(unusable, ", "))
	}
	return nil
}

// protected are the secrets and, where agents use nothing in it, the directories that these lie in: a database makes
// files beside itself, and a new key comes beside the old. Directories are protected rather than files where
// possible: SQLite makes -wal and -shm files later, and a rotated key is a new file.
// Those in the state folder need no entry of their own.
func protected(state string, secrets, used []string) []string {
	var list []string
	for _, path := range secrets {
		if path == "" || state != "" && child.Inside(child.RealPath(state), child.RealPath(path)) {
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		if dir := filepath.Dir(whole); ofOurs(dir, used) {
			whole = dir
		}
		if !slices.Contains(list, whole) {
			list = append(list, whole)
		}
	}
	return list
}

// ofOurs reports whether a directory holds data of this program alone, by its name, and none that agents use. A home directory
// or a mount is never kept whole: agents need most of it.
func ofOurs(dir string, used []string) bool {
	name := filepath.Base(dir)
	return (name == "data" || strings.Contains(name, "aqueduct")) && len((&child.Confinement{Protect: []string{dir}}).Below(used)) == 0
}

// files are those of this server: what its flags name by type, the state folder with all in it, and the heads of the audit,
// which lie beside its key.
func (s *serveCmd) files() []ownfile.File {
	return append(ownFiles(s, os.LookupEnv), ownfile.File{Path: s.auditHeadsFile(), Secret: true, Setting: "--audit-key-file"})
}

// confine keeps the files of this server from agents. The signing key is made first where it is not there: it could not be
// hidden otherwise, and an agent could put one of its own in its place.
func (s *serveCmd) confine(work []string, workspaces string, log *slog.Logger) (*child.Confinement, error) {
	if !exists(string(s.Files.SigningKeyFile)) {
		if _, err := s.Files.keys(); err != nil {
			return nil, fmt.Errorf("--signing-key-file: %w", err)
		}
	}
	database, _ := s.Files.Database.file()
	files := kept{state: string(s.Files.State), database: database, files: s.files()}
	c, err := s.ACP.Confine.confinement(files.withAnother(), work, workspaces, log)
	if err != nil {
		return nil, err
	}
	return c, s.ACP.Confine.keepSocket(c, s.Files.Database, log)
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
	for _, a := range s.ACP.ACP {
		if err := s.checkCommand("--acp "+a.id, a.command); err != nil {
			return nil, err
		}
	}
	c, err := s.confine(absolute(work), s.ACP.ACPWorkspaces, log)
	if err == nil {
		s.ACP.together = !s.ACP.Confine.apart(c, s.ACP.ACPWorkspaces, log)
	}
	return c, err
}

// confineServers is the confinement of the commands of --mcp. They work where the server was started, and are not tried
// there: what they write to is theirs to know. The one of --wrap is not confined: the client would start it unconfined as well.
func (s *serveCmd) confineServers(log *slog.Logger) (*child.Confinement, error) {
	if s.wraps {
		return nil, nil
	}
	for _, of := range s.MCP.MCP {
		if err := s.checkCommand("--mcp "+of.Name, of.Command); err != nil {
			return nil, err
		}
	}
	return s.confine(nil, "", log)
}

// checkCommand refuses a command with a file of the state folder, which is not there for it.
func (s *serveCmd) checkCommand(flag string, words []string) error {
	for _, path := range absolute(words) {
		if child.Inside(s.Files.dir, child.RealPath(path)) && exists(path) && !s.ACP.Confine.Unconfined {
			return fmt.Errorf("%s: %s lies in the state folder %s, which agents cannot see: give the state a folder of its own, by --state DIR", flag, path, s.Files.dir)
		}
	}
	return nil
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
	files := kept{state: cfg.State, files: append(ownFiles(c, os.LookupEnv), ownfile.Collect(struct{ State ownfile.Secret }{ownfile.Secret(cfg.State)})...)}
	confined, err := c.Confine.confinement(files.withAnother(), absolute(work), c.Workspaces, cfg.Log)
	if err == nil {
		c.Confine.apart(confined, c.Workspaces, cfg.Log)
	}
	return confined, err
}
