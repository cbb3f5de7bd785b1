package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aqueduct/store"
)

// Mismatch is a row that is not as the chain has it: it was written by other means than the server.
type Mismatch struct {
	Subject Subject
	Why     string
}

// String returns the row and the difference, on one line.
func (m Mismatch) String() string { return m.Subject.Type + " " + m.Subject.ID + ": " + m.Why }

// rows is what Compare reads of a store.
type rows interface {
	chain
	Approval(ctx context.Context, in store.Scope, id string) (store.Approval, error)
	Approvals(ctx context.Context, in store.Scope, f store.ApprovalFilter, page store.Page) ([]store.Approval, error)
	Grant(ctx context.Context, in store.Scope, id string) (store.Grant, error)
	Grants(ctx context.Context, in store.Scope, page store.Page) ([]store.Grant, error)
}

// Compared is what Compare found.
type Compared struct {
	Approvals, Grants int
	// Gone is how many the chain has and the tables have not: they are deleted with their threads.
	Gone       int
	Mismatches []Mismatch
}

// deeds is what the chain holds of Approvals and Grants.
type deeds struct {
	decided map[string]decision
	granted map[string]*grantDeeds
}

// decision is the last that became of an Approval.
type decision struct {
	status, sha, actor string
	person             bool // actor is who decided it
}

// grantDeeds is what became of a Grant. Uses are counted from their entries, each of which was
// written in the transaction that counted it in the row.
type grantDeeds struct {
	made, revoked bool
	uses          int64
}

func newDeeds() *deeds {
	return &deeds{decided: make(map[string]decision), granted: make(map[string]*grantDeeds)}
}

// grant is what the chain has of a Grant, begun by the first entry that names it. That may be a use: grantRow reports a
// Grant that no entry made.
func (d *deeds) grant(id string) *grantDeeds {
	if d.granted[id] == nil {
		d.granted[id] = &grantDeeds{}
	}
	return d.granted[id]
}

// add reads one entry. Its action decides what the payload's members mean, so an action that is none of ours here is
// left out, whatever its payload.
func (d *deeds) add(e store.AuditEntry) {
	var p struct {
		Status string `json:"status"`
		SHA256 string `json:"args_sha256"`
		Grant  string `json:"grant_id"`
	}
	if len(e.Payload) > 0 && json.Unmarshal(e.Payload, &p) != nil {
		return // of an action about something else
	}
	switch e.Action {
	case ApprovalDecided, ApprovalExpired, ApprovalCancelled, ToolCallSettled:
		d.decided[e.SubjectID] = decision{p.Status, p.SHA256, e.Actor, e.Action == ApprovalDecided && e.Actor != system}
		if p.Grant != "" {
			d.grant(p.Grant).made = true
		}
	case ApprovalRevoked:
		was := d.decided[e.SubjectID]
		d.decided[e.SubjectID] = decision{status: string(store.ApprovalCancelled), sha: was.sha}
	case GrantCreated:
		d.grant(e.SubjectID).made = true
	case GrantUsed:
		d.grant(e.SubjectID).uses++
	case GrantRevoked:
		d.grant(e.SubjectID).revoked = true
	}
}

// approval is what is wrong with a row; "" is nothing.
func (d *deeds) approval(a store.Approval) string {
	was, known := d.decided[a.ID]
	open := a.Status == store.ApprovalPending
	switch {
	case open && known:
		return "it is open, and the audit says that it was settled as " + was.status
	case open:
		return ""
	case !known:
		return "it is " + string(a.Status) + ", and the audit has no entry of who decided that"
	case was.status != string(a.Status):
		return "it is " + string(a.Status) + ", and the audit says " + was.status
	case was.sha != "" && was.sha != a.ArgsSHA256:
		return "its arguments' hash is not the one that was decided about"
	case was.person && a.DecidedBy != was.actor:
		return "its decider is not the one in the audit"
	}
	return ""
}

// grantRow is approval for a Grant. Its terms (tool, match, end) are in no entry, so they are not compared.
func (d *deeds) grantRow(g store.Grant) string {
	was := d.granted[g.ID]
	switch {
	case was == nil || !was.made:
		return "the audit has no entry of who made it"
	case was.revoked == g.RevokedAt.IsZero():
		return "whether it is revoked is not as the audit says"
	case was.uses != g.Uses:
		return fmt.Sprintf("it was used %d times, and the audit says %d", g.Uses, was.uses)
	}
	return ""
}

// settleTries bounds how often a row that does not fit is read once more: on a database that a server works with, rows
// and entries change together between two reads of ours.
const settleTries = 5

// Compare walks the chain and compares all Approvals and Grants with it. *Broken when the chain itself is broken.
func Compare(ctx context.Context, r rows, w *Walk) (Compared, error) {
	d, also := newDeeds(), w.Each
	w.Each = func(e store.AuditEntry) error {
		d.add(e)
		if also == nil {
			return nil
		}
		return also(e)
	}
	var out Compared
	if err := w.Run(ctx, r); err != nil {
		return out, err
	}
	c := comparison{rows: r, deeds: d, walk: w, seen: make(map[string]bool), suspects: make(map[Subject]string)}
	if err := c.read(ctx, &out); err != nil {
		return out, err
	}
	if err := c.readAgain(ctx); err != nil {
		return out, err
	}
	for id := range d.decided {
		if !c.seen["approval "+id] {
			out.Gone++
		}
	}
	for id, g := range d.granted {
		if g.made && !c.seen["grant "+id] {
			out.Gone++
		}
	}
	for of, why := range c.suspects {
		out.Mismatches = append(out.Mismatches, Mismatch{of, why})
	}
	slices.SortFunc(out.Mismatches, func(a, b Mismatch) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// comparison is one run of Compare. Rows are judged against the chain as it was read before them, so whatever a server
// wrote between the two looks wrong at first: it is a suspect, and readAgain clears it.
type comparison struct {
	rows     rows
	deeds    *deeds
	walk     *Walk
	seen     map[string]bool    // rows that exist, as "type id"
	suspects map[Subject]string // what is wrong with a row, as last read
}

// note keeps the latest judgement of a row, in place of an earlier one.
func (c *comparison) note(of Subject, why string) {
	c.seen[of.Type+" "+of.ID] = true
	if why == "" {
		delete(c.suspects, of)
	} else {
		c.suspects[of] = why
	}
}

// read goes through both tables once.
func (c *comparison) read(ctx context.Context, out *Compared) error {
	err := eachApproval(ctx, c.rows, func(a store.Approval) error {
		c.note(OfApproval(a.ID), c.deeds.approval(a))
		out.Approvals++
		return nil
	})
	if err != nil {
		return err
	}
	page := store.Page{Limit: pageSize}
	for {
		list, err := c.rows.Grants(ctx, store.System(), page)
		if err != nil {
			return err
		}
		for _, g := range list {
			c.note(OfGrant(g.ID), c.deeds.grantRow(g))
		}
		out.Grants += len(list)
		if len(list) < pageSize {
			return nil
		}
		page.After = list[len(list)-1].ID
	}
}

// eachApproval reads the table page by page, so that only one page is in memory.
func eachApproval(ctx context.Context, r rows, f func(store.Approval) error) error {
	page := store.Page{Limit: pageSize}
	for {
		list, err := r.Approvals(ctx, store.System(), store.ApprovalFilter{}, page)
		if err != nil {
			return err
		}
		for _, a := range list {
			if err := f(a); err != nil {
				return err
			}
		}
		if len(list) < pageSize {
			return nil
		}
		page.After = list[len(list)-1].ID
	}
}

// readAgain reads what does not fit once more, with the entries that came since. The row is read before the entries:
// both are committed together, so every entry of the row's state is there, and only a still newer one can make it
// differ.
func (c *comparison) readAgain(ctx context.Context) error {
	for range settleTries {
		if len(c.suspects) == 0 {
			return nil
		}
		for of := range c.suspects {
			var why string
			var err error
			if of.Type == "grant" {
				var g store.Grant
				if g, err = c.rows.Grant(ctx, store.System(), of.ID); err == nil {
					err = c.walk.Run(ctx, c.rows)
					why = c.deeds.grantRow(g)
				}
			} else {
				var a store.Approval
				if a, err = c.rows.Approval(ctx, store.System(), of.ID); err == nil {
					err = c.walk.Run(ctx, c.rows)
					why = c.deeds.approval(a)
				}
			}
			if errors.Is(err, store.ErrNotFound) { // deleted with its thread
				delete(c.suspects, of)
				continue
			}
			if err != nil {
				return err
			}
			c.note(of, why)
		}
	}
	return nil
}
