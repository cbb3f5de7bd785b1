package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"aqueduct/bridge/audit"
	"aqueduct/store"
)

// auditCmd is about the record of who did what.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that nobody has changed it, nor decided anything behind its back; fails when somebody has."`
	Export auditExportCmd `cmd:"" help:"Write it into a folder that can be verified without this program."`
}

// auditSource is where the audit is, and what is known of it.
type auditSource struct {
	Database databaseFlag `default:"sqlite:./data/aqueduct.db" help:"sqlite:PATH or postgres://…; a server may be running on it."`
	Head     []headFlag   `help:"A head from the log, a webhook or the metrics, which must still be in the chain; repeatable." placeholder:"SEQ:HASH"`
	Heads    string       `help:"File of heads that serve writes; audit.heads beside the key when not given." placeholder:"FILE"`
	KeyFile  []string     `name:"audit-key-file" help:"Key of --audit-key-file of serve; repeatable, for replicas with keys of their own and for old keys. The one beside the database when not given." placeholder:"FILE"`
	Key      keyFlag      `embed:""`
}

// walk is the way through the chain with all that is known of it.
func (c auditSource) walk() (w *audit.Walk, first store.AuditKey, err error) {
	w = &audit.Walk{}
	files := c.KeyFile
	if len(files) == 0 {
		files = []string{auditKeyPath("", c.Database, c.Key.SigningKeyFile)}
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
	heads := c.Heads
	if heads == "" {
		heads = filepath.Join(filepath.Dir(files[0]), auditHeadsName)
	}
	if w.Known, err = audit.ReadHeads(heads); err != nil {
		return nil, first, fmt.Errorf("--heads: %w", err)
	}
	for _, h := range c.Head {
		w.Known = append(w.Known, audit.Head(h))
	}
	return w, first, nil
}

// auditVerifyCmd walks the chain and compares the tables with it.
type auditVerifyCmd struct {
	Source auditSource `embed:""`
}

// Run implements the command.
func (c *auditVerifyCmd) Run(ctx context.Context, to output) (err error) {
	w, _, err := c.Source.walk()
	if err != nil {
		return err
	}
	st, err := c.Source.Database.look(ctx)
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

// macs says what was found of MACs.
func macs(w *audit.Walk) string {
	switch {
	case w.Keyed == 0:
		return "no MACs"
	case len(w.Keys) == 0:
		return fmt.Sprintf("MACs since entry %d, not checked: no key", w.Keyed)
	}
	return fmt.Sprintf("%d MACs since entry %d, all good", w.MACs, w.Keyed)
}

// shownMismatches bounds an error's text.
const shownMismatches = 20

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

// Run implements the command.
func (c *auditExportCmd) Run(ctx context.Context, to output) (err error) {
	w, key, err := c.Source.walk()
	if err != nil {
		return err
	}
	st, err := c.Source.Database.look(ctx)
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
