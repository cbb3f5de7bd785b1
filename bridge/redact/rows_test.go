package redact

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
)

// fate is what becomes of the words of a member of a row.
type fate int

const (
	asItIs fate = iota + 1 // written as they are
	hidden                 // masked, and the original is gone
	kept                   // masked, and the original is sealed
)

// fates has each member of a row that can hold words: texts and bytes. "MOVE.MEMBER.MEMBER" goes before "TYPE.MEMBER", and
// "METHOD.PARAMETER" is a parameter of a Tx or a Store. The walk fails on a member that is missing here.
var fates = func() map[string]fate {
	all := make(map[string]fate)
	for of, lists := range map[string][3]string{ // plain, masked, sealed
		"Session":         {"ID Tenant User ExternalID AgentID Owner ParentTurnID RootTurnID Callers", "Title State"},
		"Turn":            {"ID SessionID AgentID Roles PromptedBy TokenHash Upstream Traceparent Tracestate BranchedFrom", "Usage ErrorCode ErrorMessage", "Input"},
		"Run":             {"ID SessionID TurnID ExternalID BodyHash ParentRunID Tails", "Profile ErrorCode"},
		"Message":         {"ID SessionID RunID ExternalID Role", "", "Data"},
		"MessagePart":     {"SessionID SHA256 MimeType BlobID KID", "", "Data"},
		"ContextEntry":    {"Key Tenant User OwnerID SessionID ContentType SHA256 Data BlobID KID", "Metadata"},
		"ToolCall":        {"ID SessionID TurnID RunID ArgsSHA256 ErrorCode UpstreamID IdempotencyKey Risk GrantID Replica", "Name Error", "Args Result Event"},
		"Approval":        {"ID SessionID TurnID ArgsSHA256 Risk AskedUser Approvers DelegatedTo DelegatedBy DecidedBy DecidedVia GrantID Path ProposedSHA256 ProposedBy", "Tool ToolKind Title Options ResponseSchema EditedArgs Proposed Definition Reason", "Args Decision"},
		"Record":          {"ID SessionID TurnID Type", "Payload"},
		"Command":         {"ID SessionID TurnID", "Payload"},
		"OutboxItem":      {"ID SessionID Kind Target", "Payload LastError"},
		"Proxy":           {"ID AgentID Replica", "Name Capabilities LastError Sandboxes Workspaces"},
		"SandboxInstance": {"SessionID OfSession AgentID ProxyID InstanceName ACPSessionID Status Provider Runtime TokenHash", "LastError Transport Init"},
		"Grant":           {"ID Tenant User AgentID SessionID Tool Kind Template CreatedBy RevokedBy", "Match Note"},
		"Delegation":      {"ID Tenant User To Holds AgentID Tool ToolKind RevokedBy", "Note"},
		"AuditEntry":      {"Tenant Actor Action SubjectType SubjectID Remote PrevHash Hash MAC", "Payload"},
		"Tool":            {"Name Tenant Endpoint Schema Policy Source", "Metadata"}, // a schema is kept as it came: SECURITY.md
		"ToolPin":         {"Tool SHA256 Tenant User By"},
		"Agent":           {"ID Tenant Owner Protocol Endpoint AuthKID Auth", "Name Capabilities"},
		"Task":            {"ID Tenant User RequestID ThreadID AgentID Replica Body KID BodyHash Code", "Message"},
		"TaskMove":        {"ID Replica Code", "Message"},
		"BlobRow":         {}, "Blob": {"ID SessionID"},
		"BudgetKey": {"Tenant Budget Subject Period"}, "BudgetUse": {"SessionID"},
		"Credential":         {"ID Parent Tenant User Name Roles AgentID Owner Hash CreatedBy RevokedBy"},
		"ModelCall":          {"ID SessionID TurnID AgentID Route Model Upstream Code Replica"}, // a Model has a place in the table of models
		"UsedLink":           {"ID ApprovalID Tenant User"},
		"BootstrapUse":       {"TokenID ProxyID"},
		"ApprovalDelegation": {"ID To By"},
		"ApprovalProposal":   {"ID SHA256 By", "Args"},
		"Share":              {"ID SessionID Tenant To CreatedBy"},
		"Sealed":             {"Ref SessionID KID Data"},
		"SearchText":         {"ID SessionID Body"}, // is made of rows that are masked
		"Replica":            {"ID Name"},

		"TurnMove":              {"ID TokenHash Upstream", "Usage ErrorCode ErrorMessage"},
		"RunMove":               {"ID", "ErrorCode"},
		"RunStateChanges":       {"ID", "Changes"},
		"ToolCallMove":          {"ID OnlyOf RunID ArgsSHA256 ErrorCode Risk GrantID Replica", "Error", "Args Result"},
		"ToolCallShown":         {"ID RunID"},
		"ToolCallInTranscript":  {"ID"},
		"ToolCallDelivered":     {"ID"},
		"ApprovalMove":          {"ID DecidedBy DecidedVia GrantID", "EditedArgs Reason", "Decision"},
		"RecordOf":              {"ToolCallID"},
		"MoveMessage":           {"ID NewID"},
		"ReplaceMessages":       {"SessionID AfterTurn BeforeTurn"},
		"SessionMove":           {"ID", "Title State"},
		"CommandDone":           {"ID"},
		"ReplaceContextEntry.e": {"Metadata"},          // which it does not write
		"ClaimOutbox.i":         {"Payload LastError"}, // as they were read; it does not write them
		"InsertContext.Entry":   {"", "Data"},          // an event that is too large, in clear

		"SetSessionTitle":    {"id", "title"},
		"ReplaceMessageData": {"messageID", "data"},
		"OutboxRetry":        {"id", "reason"},
	} {
		for i, list := range lists {
			for member := range strings.FieldsSeq(list) {
				all[of+"."+member] = fate(i + 1)
			}
		}
	}
	return all
}()

// ids are parameters that are no words, of any method.
var ids = strings.Fields("id ids sessionID turnID runID messageID replica from to by tenant user key name day threadID proxyID tokenID approvalID")

// moves has one of each kind of Move. The walk compares it with the source of the store.
var moves = []store.Move{
	store.TurnMove{}, store.RunMove{}, store.RunStateChanges{}, store.ToolCallMove{}, store.ApprovalMove{}, store.ToolCallShown{},
	store.ToolCallInTranscript{}, store.ToolCallDelivered{}, store.InsertRun{}, store.InsertToolCall{}, store.InsertApproval{}, store.TakeToolCall{},
	store.RecordOf{}, store.InsertOutbox{}, store.InsertCommand{}, store.UpsertMessage{}, store.InsertPart{}, store.InsertContext{}, store.MoveMessage{},
	store.ReplaceMessages{}, store.SessionMove{}, store.CommandDone{}, store.KeepSealed{},
}

// enums are the types of texts that only this program chooses.
var enums = strings.Fields("AgentSource ApprovalKind ApprovalStatus BlobStatus CommandKind ContextOwner CredentialKind ModelCallStatus OnFailure " +
	"ProxyStatus RecordSource RunStatus TaskStatus ToolCallKind ToolCallStatus TurnStatus")

// plantedWord is a secret in a member of a row.
type plantedWord struct {
	path   string // from the Move or method on: "InsertRun.Run.Profile"
	member string // "Run.Profile"
	secret string
}

// planting writes a secret of its own into every member that can hold words.
type planting struct {
	t    *testing.T
	list []plantedWord
}

func (p *planting) words(path, member string) string {
	secret := fmt.Sprintf("sk-proj-Ab3dEf6hIj9kLm2nOp5q%04d", len(p.list))
	p.list = append(p.list, plantedWord{path, member, secret})
	return "words " + secret
}

// fill fills a value.
func (p *planting) fill(path, member string, v reflect.Value) {
	switch of := v.Type(); {
	case of == reflect.TypeFor[string]():
		v.SetString(p.words(path, member))
	case of == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte(`{"a":"` + p.words(path, member) + `"}`))
	case of == reflect.TypeFor[[]string]():
		v.Set(reflect.ValueOf([]string{p.words(path, member)}))
	case of == reflect.TypeFor[store.ToolCallKind]():
		v.SetString(string(store.KindQuestion)) // its Name is the agent's word
	case slices.Contains(enums, of.Name()), of.Kind() == reflect.Slice && slices.Contains(enums, of.Elem().Name()):
	case v.CanInt(), of.Kind() == reflect.Bool, of == reflect.TypeFor[time.Time](), of == reflect.TypeFor[store.Scope](), of == reflect.TypeFor[context.Context]():
	case of.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := of.Field(i).Name
			p.fill(path+"."+name, of.Name()+"."+name, v.Field(i))
		}
	default:
		p.t.Errorf("%s is a %s: the walk does not know which words it holds", path, of)
	}
}

// check compares what was written with the fates of what was planted.
func (p *planting) check(written any, sealed []store.Sealed, vault *Vault) {
	p.t.Helper()
	text, originals := fmt.Sprintf("%s", written), ""
	for _, s := range sealed {
		original, err := vault.Open(s.Ref, s.KID, s.Data)
		if err != nil {
			p.t.Error(err)
		}
		originals += string(original)
	}
	for _, w := range p.list {
		want, ok := fates[w.path]
		if !ok {
			want = fates[w.member]
		}
		_, param, _ := strings.Cut(w.path, ".")
		switch {
		case want == 0 && w.path == w.member && slices.Contains(ids, param):
		case want == 0:
			p.t.Errorf("%s has no fate: say whether it is masked", w.path)
		case strings.Contains(text, w.secret) != (want == asItIs):
			p.t.Errorf("%s is written in clear: %t; its fate is %d", w.path, want != asItIs, want)
		case strings.Contains(originals, w.secret) != (want == kept):
			p.t.Errorf("the original of %s is sealed: %t; its fate is %d", w.path, want != kept, want)
		}
	}
}

// in are the arguments of a method of the store, filled, with the parameters' names from its source.
func (p *planting) in(name string, of reflect.Type, params map[string][]string) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	for i := 1; i < of.NumIn(); i++ {
		path := name + "." + params[name][i]
		v := reflect.New(of.In(i)).Elem()
		p.fill(path, path, v)
		args = append(args, v)
	}
	return args
}

// TestS60EveryWriteIsMasked: each member of each row that is written, by a Move, a Record or a method of a Tx, is masked, sealed or
// named as one that holds no words. A new one that is none of these fails.
func TestS60EveryWriteIsMasked(t *testing.T) {
	t.Parallel()
	vault, err := NewVault(NewKeyLine())
	if err != nil {
		t.Fatal(err)
	}
	inSource, params := sourceOf(t)
	var walked []string
	for _, m := range moves {
		v := reflect.New(reflect.TypeOf(m)).Elem()
		name := v.Type().Name()
		walked = append(walked, name)
		p := &planting{t: t}
		p.fill(name, name, v)
		p.commit(vault, &store.Batch{Moves: []store.Move{v.Interface().(store.Move)}})
	}
	if slices.Sort(walked); !slices.Equal(walked, inSource) {
		t.Errorf("the moves of the store are %v, and the walk has %v", inSource, walked)
	}
	var record store.Record
	p := &planting{t: t}
	p.fill("Records", "Records", reflect.ValueOf(&record).Elem())
	p.commit(vault, &store.Batch{Records: []store.Record{record}})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[store.Batch]()) {
		if !slices.Contains([]string{"Replica", "Seq", "Events", "Records", "Moves"}, f.Name) { // events are masked when they are encoded
			t.Errorf("Commit does not mask Batch.%s", f.Name)
		}
	}
	reader, own := reflect.TypeFor[store.Reader](), reflect.TypeFor[*struct {
		ofThreads
		ofOthers
	}]()
	for _, door := range []reflect.Type{reflect.TypeFor[store.Tx](), reflect.TypeFor[store.Store]()} {
		for m := range door.Methods() {
			if _, reads := reader.MethodByName(m.Name); reads || slices.Contains([]string{"Commit", "InTx", "CutLogs", "Scrub", "Ping", "Close"}, m.Name) {
				continue
			}
			p, to := &planting{t: t}, &recorder{}
			args := p.in(m.Name, m.Type, params)
			var written []any
			for _, arg := range args {
				written = append(written, arg.Interface())
			}
			if _, masks := own.MethodByName(m.Name); masks {
				base := Wrap(inTx{to: to}, Forms(), vault)
				if err := base.InTx(t.Context(), func(tx store.Tx) error { reflect.ValueOf(tx).MethodByName(m.Name).Call(args); return nil }); err != nil {
					t.Error(err)
				}
				written = to.written
			}
			p.check(written, to.sealed, vault)
		}
	}
}

// commit checks a Batch by way of Commit.
func (p *planting) commit(vault *Vault, b *store.Batch) {
	p.t.Helper()
	to := &batches{}
	if _, err := Wrap(to, Forms(), vault).Commit(p.t.Context(), b); err != nil {
		p.t.Fatal(err)
	}
	var sealed []store.Sealed
	rows := slices.DeleteFunc(to.batch.Moves[len(b.Moves):], func(m store.Move) bool {
		s, ok := m.(store.KeepSealed)
		sealed = append(sealed, s.Sealed)
		return ok
	})
	p.check([]any{to.batch.Records, to.batch.Moves[:len(b.Moves)], rows}, sealed, vault)
}

// TestS60WhatDependsOnTheRow: what the walk fills in one way only.
func TestS60WhatDependsOnTheRow(t *testing.T) {
	t.Parallel()
	vault, _ := NewVault(NewKeyLine())
	const secret = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t"
	r := rows{shown: shown{Forms()}, vault: vault}
	if m := r.message(store.Message{SessionID: "s", Output: true, Data: []byte(`"` + secret + `"`)}); strings.Contains(string(m.Data), secret) || len(r.sealed) > 0 {
		t.Errorf("an answer is %s with %d originals", m.Data, len(r.sealed))
	}
	if c := r.call(store.ToolCall{Kind: store.KindServer, Name: secret}); c.Name != secret {
		t.Errorf("a tool is found by its name, which became %q", c.Name)
	}
	if p := r.part(store.MessagePart{SessionID: "s", Data: []byte(secret)}); strings.Contains(string(p.Data), secret) || len(r.sealed) != 1 {
		t.Errorf("a part is %s with %d originals", p.Data, len(r.sealed))
	}
	if c := r.callMove(store.ToolCallMove{Args: []byte(`"` + secret + `"`)}, known("")); strings.Contains(string(c.Args), secret) || len(r.sealed) != 1 {
		t.Errorf("a move of no Session is %s, with %d originals", c.Args, len(r.sealed))
	}
}

// strange is a kind of Move that no rule knows.
type strange struct{ store.CommandDone }

// TestS60AnUnknownMoveIsRefused: a Move without a rule is not written.
func TestS60AnUnknownMoveIsRefused(t *testing.T) {
	t.Parallel()
	to := &batches{}
	if _, err := Wrap(to, Forms(), nil).Commit(t.Context(), &store.Batch{Moves: []store.Move{strange{}}}); !errors.Is(err, store.ErrData) || to.batch != nil {
		t.Errorf("the Batch %v is written: %v", to.batch, err)
	}
}
