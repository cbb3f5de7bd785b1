// The files that judge or configure: agents must not change them, nor put others in their place. They are collected from the
// flags by type (internal/ownfile), and a start with one that cannot be kept is refused.

package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"aqueduct/bridge/tools"
	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
)

// toolsFile is the path of a file of tools, which names the files of their secrets.
type toolsFile ownfile.Config

// Files implements ownfile.Namer. A file that cannot be read ends the start elsewhere.
func (f toolsFile) Files() []ownfile.File {
	raw, err := ownfile.Config(f).Read()
	if err != nil {
		return ownfile.Collect(ownfile.Config(f))
	}
	defined, _ := tools.ParseFile(raw) // a bad one ends the start elsewhere
	return append(ownfile.Collect(ownfile.Config(f)), ownfile.Collect(defined)...)
}

// modelsFile is the path of a file of models, which names the files of their keys.
type modelsFile ownfile.Config

// Files implements ownfile.Namer.
func (f modelsFile) Files() []ownfile.File {
	if f == "" {
		return nil
	}
	models, _ := modelFlags{ModelsFile: f}.read(func(string) (string, error) { return "", nil })
	return append(ownfile.Collect(ownfile.Config(f)), ownfile.Collect(models)...)
}

// Files implements ownfile.Namer: the files of an SQLite database, and those that a URL of PostgreSQL names.
func (d databaseFlag) Files() (files []ownfile.File) {
	if path, ok := d.file(); ok {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			files = append(files, ownfile.File{Path: path + suffix, Secret: true})
		}
		return files
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return nil
	}
	for name, values := range u.Query() {
		switch name {
		case "passfile", "sslkey", "sslcert", "sslrootcert", "servicefile":
			for _, path := range values {
				files = append(files, ownfile.File{Path: path, Secret: name == "passfile" || name == "sslkey"})
			}
		}
	}
	return files
}

// fileVariables are the variables of the environment by which libraries of this program find files, and whether the file holds
// a secret.
var fileVariables = map[string]bool{
	"PGPASSFILE": true, "PGSSLKEY": true, "PGSSLCERT": false, "PGSSLROOTCERT": false, "PGSERVICEFILE": true, "SSL_CERT_FILE": false,
}

// ownFiles are the files that a command's flags and its environment name, and the program.
func ownFiles(flags any, env lookup) []ownfile.File {
	files := ownfile.Collect(flags)
	for name, secret := range fileVariables {
		if path, ok := env(name); ok && path != "" {
			files = append(files, ownfile.File{Path: path, Secret: secret, Setting: "$" + name})
		}
	}
	if self, err := os.Executable(); err == nil {
		files = append(files, ownfile.File{Path: self, Setting: programSetting})
	}
	return files
}

// everywhere adds the other places where the files can be reached.
func everywhere(files []ownfile.File) []ownfile.File {
	all := slices.Clone(files)
	for _, file := range files {
		for _, path := range child.Aliases(file.Path) {
			all = append(all, ownfile.File{Path: path, Secret: file.Secret, Setting: file.Setting})
		}
	}
	return all
}

// secretsOf are the paths of those files that hold a secret.
func secretsOf(files []ownfile.File) (paths []string) {
	for _, file := range files {
		if file.Secret {
			paths = append(paths, file.Path)
		}
	}
	return paths
}

// programSetting is how errors name the program itself, which no flag names.
const programSetting = "this program"

// keep adds to a confinement what agents must not change, and refuses a file that they could change all the same. work are the
// folders that agents work in. A nil confinement is that of a start whose agents run unconfined.
func keep(c *child.Confinement, files []ownfile.File, work []string) error {
	k := keeper{confined: c, work: realPaths(work), home: realPaths(homesOf(c)), account: ownfile.Self(), landlock: child.LandlockWorks()}
	if c != nil && c.User != nil {
		k.account = ownfile.Account{UID: c.User.UID, Groups: append(slices.Clone(c.User.Groups), c.User.GID)}
	}
	for _, file := range files {
		// Unconfined agents read and change every file of the account, and the log has a line about it. Only a file that they would
		// change by their work is refused then.
		if c == nil && (file.Secret || file.Setting == programSetting) {
			continue
		}
		if err := k.judge(file); err != nil {
			return err
		}
	}
	return nil
}

// keeper judges files against one confinement.
type keeper struct {
	confined *child.Confinement
	account  ownfile.Account // of the agents
	work     []string        // folders that agents work in
	home     []string        // and the others that they write to
	landlock bool
}

// hides reports whether a path lies in a folder that is not there for agents.
func (k *keeper) hides(path string) bool {
	return k.confined != nil && slices.ContainsFunc(k.confined.Hide, func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && info.IsDir() && child.Inside(child.RealPath(dir), child.RealPath(path))
	})
}

// judge adds a file to the confinement, or returns the reason why it cannot be kept. An account that can change a name
// on the way to a file can put another file in its place, so every folder and link on the way counts like the file.
func (k *keeper) judge(file ownfile.File) error {
	steps, err := ownfile.Steps(file.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", file.Setting, err)
	}
	hidden := k.hides(file.Path)
	for _, step := range steps {
		if hidden && !step.IsLink() {
			continue
		}
		if slices.ContainsFunc(k.work, func(dir string) bool { return child.Inside(dir, step.Path()) }) {
			return fmt.Errorf("%s: %s lies in a folder that agents work in, so that they could change it: move it out, as to /etc/aqueduct", file.Setting, file.Path)
		}
	}
	if open := ownfile.OpenTo(steps, file.Setting != programSetting); open != "" {
		return fmt.Errorf("%s: %s can be changed by other accounts of this machine, agents' too, because %s is writable by group or others: chmod go-w %s", file.Setting, file.Path, open, open)
	}
	if k.confined == nil {
		return nil
	}
	if !slices.ContainsFunc(steps, k.account.Replaces) {
		return nil
	}
	return k.hold(file, steps)
}

// hold has the confinement keep a file that the agents' account could change.
func (k *keeper) hold(file ownfile.File, steps []ownfile.Step) error {
	c, last := k.confined, steps[len(steps)-1]
	if len(c.Helper) == 0 {
		return fmt.Errorf("%s: %s can be changed by the account %s that agents run as, and nothing else keeps it from them: give it and its folder to another account", file.Setting, file.Path, c.User.Name)
	}
	if last.Info != nil && !last.Info.IsDir() && !file.Secret && hardLinked(last.Info) {
		return fmt.Errorf("%s: %s has a second name (a hard link), by which agents could change it: make a copy of it", file.Setting, file.Path)
	}
	for _, step := range steps {
		at := step.Path()
		if !step.IsLink() && step != last {
			continue
		}
		below := !k.landlock || slices.ContainsFunc(k.home, func(dir string) bool { return child.Inside(dir, at) })
		switch {
		case below && step.IsLink() && k.account.Replaces(step):
			return fmt.Errorf("%s: %s leads through %s, a link that agents could replace: name %s instead", file.Setting, file.Path, at, child.RealPath(file.Path))
		case step == last && (file.Secret || k.hides(at)): // it is kept with those that are not read
		case step.Info == nil:
			return fmt.Errorf("%s: there is no %s", file.Setting, at)
		case below && c.User != nil:
			return fmt.Errorf("%s: %s lies in a folder of the account %s that agents run as: move it out, as to /etc/aqueduct", file.Setting, at, c.User.Name)
		case below && !step.IsLink(): // only a mount can keep it
			c.Apart = true
			add(&c.Pinned, at)
			// A mount over a file ends where another file is put into its place, as editors do. One over its folder stays.
			if dir := filepath.Dir(at); ofOurs(dir, slices.Concat(k.work, k.home)) {
				add(&c.Pinned, dir)
			}
		default:
			add(&c.ReadOnly, at)
			if c.User == nil && !step.IsLink() {
				add(&c.Pinned, at)
			}
		}
	}
	return nil
}

// hardLinked reports whether a file has another name.
func hardLinked(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}

func add(list *[]string, path string) {
	if !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// realPaths follows the links of paths, and leaves out empty ones.
func realPaths(paths []string) (list []string) {
	for _, path := range paths {
		if path != "" {
			list = append(list, child.RealPath(path))
		}
	}
	return list
}
