package ownfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aqueduct/internal/ownfile"
)

// named is a setting that names a second file.
type named string

func (n named) Files() []ownfile.File {
	if n == "" {
		return nil
	}
	return []ownfile.File{{Path: string(n)}, {Path: string(n) + ".key", Secret: true}}
}

type flags struct {
	Key    ownfile.Secret
	Rules  ownfile.Config `name:"policy"`
	Both   named
	Listed []struct{ File ownfile.Secret }
	Table  map[string]*flags
	Group  struct{ OIDCMapping ownfile.Config } `embed:""`
	hidden ownfile.Secret
	Other  string
	Again  *flags
}

// TestCollect: the files are found by their types wherever they are, under the names of their flags.
func TestCollect(t *testing.T) {
	t.Parallel()
	f := &flags{Key: "k", Rules: "r", Both: "b", Listed: []struct{ File ownfile.Secret }{{"l"}}, Table: map[string]*flags{"x": {Rules: "in"}}, hidden: "h", Other: "o"}
	f.Group.OIDCMapping, f.Again = "m", f
	want := []ownfile.File{
		{"k", true, "--key"}, {"r", false, "--policy"}, {"b", false, "--both"}, {"b.key", true, "--both"}, {"l", true, "--listed"},
		{"in", false, "--table"}, {"m", false, "--oidcmapping"}, {"h", true, "--hidden"},
	}
	if got := ownfile.Collect(f); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := ownfile.Collect(nil); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestSteps: every name on the way counts, and every link with the way that it leads.
func TestSteps(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return root + "/" + path }
	err = errors.Join(os.MkdirAll(at("real/sub"), 0o755), os.WriteFile(at("real/file"), nil, 0o600), os.Symlink("real", at("a")), os.Symlink(at("a/sub/../file"), at("b")),
		os.Symlink("round", at("round")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"real/file": {"real", "real/file"}, "a/file": {"a", "real", "real/file"}, "b": {"b", "a", "real", "real/sub", "real/file"},
		"real/none/x": {"real", "real/none"}, "a/../real/file": {"a", "real", "real", "real/file"},
	} {
		steps, err := ownfile.Steps(at(path))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range steps {
			if rel, err := filepath.Rel(root, step.Path()); err == nil && filepath.IsLocal(rel) && rel != "." {
				got = append(got, rel)
			}
		}
		// An absolute link begins at the root again.
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if _, err := ownfile.Steps(at("round")); err == nil {
		t.Error("a link in a circle")
	}
}

// TestWhoChanges: which accounts can put another file in a place, and whether group or others can.
func TestWhoChanges(t *testing.T) {
	t.Parallel()
	self := ownfile.Self()
	stranger := ownfile.Account{UID: 54321, Groups: []uint32{54321}}
	for _, c := range []struct {
		folder, file os.FileMode
		stranger     bool
		open         string
	}{
		{0o755, 0o644, false, ""}, {0o755, 0o666, true, "file"}, {0o777, 0o644, true, "folder"}, {0o777 | os.ModeSticky, 0o644, false, ""},
		{0o755, 0o664, false, "file"}, {0o775, 0o600, false, "folder"}, {0o700, 0o620, false, "file"},
	} {
		folder := filepath.Join(t.TempDir(), "folder")
		file := filepath.Join(folder, "file")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(file, nil, 0o600), os.Chmod(file, c.file), os.Chmod(folder, c.folder)); err != nil {
			t.Fatal(err)
		}
		steps, err := ownfile.Steps(file)
		if err != nil {
			t.Fatal(err)
		}
		last := steps[len(steps)-1]
		if got := stranger.Replaces(last); got != c.stranger || !self.Replaces(last) {
			t.Errorf("%v in %v: %t", c.file, c.folder, got)
		}
		if got := ownfile.OpenTo(steps, true); c.open == "" && got != "" || c.open != "" && filepath.Base(got) != c.open {
			t.Errorf("%v in %v: open is %q", c.file, c.folder, got)
		}
		if got := stranger.May(last.Info); got != (c.file&0o002 != 0) {
			t.Errorf("%v: %t", c.file, got)
		}
	}
}
