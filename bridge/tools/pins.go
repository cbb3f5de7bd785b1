package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/policy"
	"aqueduct/store"
)

// An MCP server states its tools anew whenever it wants: a tool that people and policies know as harmless may become another
// one under the same name. So the definitions of its first list are pinned. A call of a tool with a definition that is not
// pinned is asked about, whatever a rule or a Grant allows, until a person has approved one such call: that pins the
// definition. Earlier definitions stay pinned, so a server that goes back to one is not asked about.

// definition is what an MCP server states of a tool, and what an Approval keeps of it.
type definition struct {
	SHA256 string `json:"sha256"`
	// Unconfirmed is set where no one has confirmed it. Then the rest is there too, for the person who is asked.
	Unconfirmed bool            `json:"unconfirmed,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // description, title and annotations
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// definitionOf returns the hash of what an MCP server states of a tool; "" for any other tool. It is made of the row as it is kept,
// so it is the same in each replica and after a restart.
func definitionOf(t store.Tool) string {
	if _, ok := MCPServer(t); !ok {
		return ""
	}
	sum := sha256.Sum256(mustJSON([]any{t.Name, canonical(t.Metadata), canonical(t.Schema)}))
	return hex.EncodeToString(sum[:])
}

// canonical decodes JSON, so that the order of members does not count. Bytes that are not JSON count as they are.
func canonical(raw []byte) any {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	return v
}

// serverPin names an MCP server among the pins: no tool has a name that ends with the dot.
func serverPin(server string) string { return server + "." }

// confirmed reports whether the definition of a tool is confirmed for whom calls it. Tools of no MCP server always are.
func confirmed(ctx context.Context, r store.Reader, tenant, user string, t store.Tool) (bool, error) {
	sum := definitionOf(t)
	if sum == "" {
		return true, nil
	}
	return r.ToolPinned(ctx, store.System(), store.ToolPin{Tool: t.Name, SHA256: sum, Tenant: tenant, User: user})
}

// askedOf is what an Approval keeps of a tool's definition; nil for a tool of no MCP server.
func askedOf(t store.Tool, confirmed bool) []byte {
	d := definition{SHA256: definitionOf(t), Unconfirmed: !confirmed}
	if d.SHA256 == "" {
		return nil
	}
	if d.Unconfirmed {
		d.Metadata, d.Schema = t.Metadata, t.Schema
	}
	return mustJSON(d)
}

// unconfirmedTitle follows the name of a tool in a question that confirms its definition.
const unconfirmedTitle = ": new or changed since its MCP server was first listed; to approve confirms it"

// changedSince reports whether a tool is another one than an Approval was asked about.
func changedSince(a store.Approval, t store.Tool) bool {
	var asked definition
	return len(a.Definition) > 0 && json.Unmarshal(a.Definition, &asked) == nil && asked.SHA256 != definitionOf(t)
}

// changedReason is why a call is not run that was approved under another definition.
const changedReason = "The tool has changed since this was asked. It was not run; the agent may call it again."

// withPins has a person asked about a call of a tool whose definition is not confirmed.
func withPins(v policy.Verdict, confirmed bool) policy.Verdict {
	if !confirmed && v.Action == policy.Allow {
		v.Action, v.Grant, v.Reason = policy.Ask, "", "The tool is new or has changed since its MCP server was first listed, and no one has confirmed it."
	}
	return v
}

// confirm pins the definition that an approved call was asked under. The approval of an administrator or an approver counts for
// the tenant, that of any other user for who prompted. The question is of the definition that is there now (judge.pending).
func confirm(ctx context.Context, tx store.Tx, tenant string, q approval.Question, who store.Principal, now time.Time) error {
	var d definition
	if q.Approval.Status != store.ApprovalApproved || len(q.Approval.Definition) == 0 || !approval.ByPerson(q.Approval) ||
		json.Unmarshal(q.Approval.Definition, &d) != nil || !d.Unconfirmed {
		return nil
	}
	pin := store.ToolPin{Tool: q.Call.Name, SHA256: d.SHA256, Tenant: tenant, User: q.Approval.AskedUser, By: q.Approval.DecidedBy, CreatedAt: now}
	if who.Has(store.RoleAdmin) || who.Has(store.RoleApprover) {
		pin.User = ""
	}
	made, err := tx.PinTool(ctx, pin)
	if err != nil || !made {
		return err
	}
	if who.User == "" {
		who = store.Principal{Tenant: tenant, User: pin.By}
	}
	return audit.AppendAt(ctx, tx, who, audit.ToolConfirmed, audit.OfTool(pin.Tool), map[string]string{"sha256": pin.SHA256, "for": pin.User}, now)
}

// pinned keeps the first list of an MCP server, and audits what is new or has changed in a later one. before are the rows of the
// server before the list was kept, and after those that it has now.
func pinned(ctx context.Context, tx store.Tx, server string, before, after map[string]store.Tool) error {
	now := time.Now()
	first, err := tx.PinTool(ctx, store.ToolPin{Tool: serverPin(server), CreatedAt: now})
	if err != nil {
		return err
	}
	if first {
		trusted := after
		if len(before) > 0 { // listed by a version that had no pins: what came with this list is new
			trusted = before
		}
		for _, t := range trusted {
			if _, err := tx.PinTool(ctx, store.ToolPin{Tool: t.Name, SHA256: definitionOf(t), CreatedAt: now}); err != nil {
				return err
			}
		}
	}
	var changed []string
	for name, t := range after {
		if was, known := before[name]; !known || definitionOf(was) != definitionOf(t) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for _, name := range changed[:min(len(changed), mostAudited)] {
		if err := auditListed(ctx, tx, server, before[name], after[name]); err != nil {
			return err
		}
	}
	if more := len(changed) - mostAudited; more > 0 {
		return auditTool(ctx, tx, audit.Nobody(audit.AllTenants), audit.ToolChanged, serverPin(server), map[string]int{"more": more})
	}
	return nil
}

// mostAudited bounds the entries that one list of a server adds to the audit. The rest is counted in one more: a server that
// changes all its tools without end must not fill the audit.
const mostAudited = 20

// auditListed audits a tool as a list of its MCP server has it now. was is its row of before, or the zero one.
func auditListed(ctx context.Context, tx store.Tx, server string, was, t store.Tool) error {
	ok, err := confirmed(ctx, tx, "", "", t)
	if err != nil {
		return err
	}
	action := audit.ToolChanged
	if ok {
		action = audit.ToolRegistered
	}
	return auditTool(ctx, tx, audit.Nobody(audit.AllTenants), action, t.Name, struct {
		Kind     string `json:"kind"`
		Source   string `json:"source"`
		Endpoint string `json:"endpoint"`
		SHA256   string `json:"sha256"`
		Before   string `json:"sha256_before,omitempty"`
	}{string(t.Kind), t.Source, t.Endpoint, definitionOf(t), definitionOf(was)})
}

// toolsOf reads the tools of an MCP server, by name.
func toolsOf(ctx context.Context, r store.Reader, server string) (map[string]store.Tool, error) {
	list := make(map[string]store.Tool)
	err := eachShared(ctx, r, func(t store.Tool) error {
		if of, ok := MCPServer(t); ok && of == server {
			list[t.Name] = t
		}
		return nil
	})
	return list, err
}
