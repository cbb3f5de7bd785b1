// aqueduct audit: check the chain of the audit and write it out. It reads the database directly, without a server, so
// that a server that was tampered with cannot vouch for itself.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// auditCmd is about the record of who did what.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that nobody has changed it, nor decided anything behind its back; fails when somebody has."`
	Export auditExportCmd `cmd:"" help:"Write it into a folder that can be verified without this program."`
}

// auditSource is where the audit is, and what is known of it. Heads that are known from elsewhere are what a
// rewritten chain cannot have: it would need their hashes.
type auditSource struct {
	Files   stateFlags `embed:""`
	Head    []headFlag `help:"A head from the log, a webhook or the metrics, which must still be in the chain; repeatable." placeholder:"SEQ:HASH"`
	Heads   string     `help:"File of heads that serve writes; audit.heads beside the key when not given." placeholder:"FILE"`
	KeyFile []string   `name:"audit-key-file" help:"Key of --audit-key-file of serve; repeatable, for replicas with keys of their own and for old keys. audit.key in the state folder when not given." placeholder:"FILE"`
}

// walk is the way through the chain with all that is known of it. A key that is named must be there; the one beside
// the database need not, since an audit without MACs can still be checked for gaps. first is the key that signs an
// export.
func (c auditSource) walk() (w *audit.Walk, first store.AuditKey, err error) {
	w = &audit.Walk{}
	files := c.KeyFile
	if len(files) == 0 {
		files = []string{c.Files.in(auditKeyName)}
	}
	for _, path := range files {
		key, err := readAuditKey(path)
		if err != nil {
			return nil, first, err
		}
		if key.ID() == "" && len(c.KeyFile) > 0 {
			return nil, first, fmt.Errorf("--audit-key-file: there is no %s", path)
		}
		if key.ID() != "" {
			w.Keys = append(w.Keys, key)
		}
	}
	if len(w.Keys) > 0 {
		first = w.Keys[0]
	}
	// serve writes them beside its key, which is taken to be the first one.
	heads := cmp.Or(c.Heads, filepath.Join(filepath.Dir(files[0]), auditHeadsName))
	if w.Known, err = audit.ReadHeads(heads); err != nil {
		return nil, first, fmt.Errorf("--heads: %w", err)
	}
	for _, h := range c.Head {
		// They count beside those of the file: who rewrites the database of a machine may rewrite a file there too.
		w.Known = append(w.Known, audit.Head(h))
	}
	return w, first, nil
}

// auditVerifyCmd walks the chain and compares the tables with it.
type auditVerifyCmd struct {
	Source auditSource `embed:""`
}

// open is the database, and the way through its chain. The database is opened for reading only, so its schema may be
// of another version.
func (c auditSource) open(ctx context.Context) (st looking, w *audit.Walk, first store.AuditKey, err error) {
	// The keys and heads first: without what the chain is checked by there is no reason to open the database.
	if w, first, err = c.walk(); err == nil {
		st, err = c.Files.Database.look(ctx)
	}
	return st, w, first, err
}

// Run implements the command. It fails when the chain is broken and also when approvals or grants differ from what
// the entries record.
func (c *auditVerifyCmd) Run(ctx context.Context, to output) (err error) {
	st, w, _, err := c.Source.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	found, err := audit.Compare(ctx, st, w)
	if err != nil {
		return err
	}
	if len(found.Mismatches) > 0 {
		return mismatched(found.Mismatches)
	}
	_, err = fmt.Fprintf(to.out, "%d entries, unbroken\nhead %s\n%s, %d known heads\n%d approvals and %d grants as the entries say; %d deleted with their threads\n",
		w.Head.Seq, w.Head, macs(w), len(w.Known), found.Approvals, found.Grants, found.Gone)
	return err
}

// macs summarizes what was found of MACs. MACs that could not be checked for want of a key are named as such, since
// they prove nothing.
func macs(w *audit.Walk) string {
	switch {
	case w.Keyed == 0:
		return "no MACs"
	case len(w.Keys) == 0:
		return fmt.Sprintf("MACs since entry %d, not checked: no key", w.Keyed)
	}
	return fmt.Sprintf("%d MACs since entry %d, all good", w.MACs, w.Keyed)
}

// shownMismatches bounds an error's text. The first ones show what happened; thousands would hide the count.
const shownMismatches = 20

// mismatched is the error that lists rows which differ from the audit.
func mismatched(all []audit.Mismatch) error {
	text := fmt.Sprintf("audit: %d rows were written by others than the server:", len(all))
	for i, m := range all {
		if i == shownMismatches {
			text += "\n  …"
			break
		}
		text += "\n  " + m.String()
	}
	return errors.New(text)
}

// auditExportCmd writes a bundle.
type auditExportCmd struct {
	Source auditSource `embed:""`
	Out    string      `required:"" help:"Folder to make." placeholder:"FOLDER"`
}

// Run implements the command. The bundle is written even where something is wrong, because it is the evidence; the
// error comes afterwards.
func (c *auditExportCmd) Run(ctx context.Context, to output) (err error) {
	st, w, key, err := c.Source.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	_, problems, err := audit.Export(ctx, st, w, key, c.Out)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(to.out, "%d entries in %s\nhead %s\n", w.Head.Seq, c.Out, w.Head); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("audit: exported, and %d things are wrong: %s", len(problems), problems[0])
	}
	return nil
}

// headFlag is a head as the command prints it.
type headFlag audit.Head

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *headFlag) UnmarshalText(text []byte) error {
	head, err := audit.ParseHead(string(text))
	*h = headFlag(head)
	return err
}
