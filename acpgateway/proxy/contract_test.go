package proxy

import (
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

func TestGitPushTellsTheBranch(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"git init -q --bare far && git init -q -b work && git remote add origin ./far && git -c user.name=n -c user.email=e commit -q --allow-empty -m m"}}`)
	if o := want[*wire.Opened](g); !o.OK {
		t.Fatal(o.Error)
	}
	g.send(`{"type":"sandbox_control","action":"git_push","run_id":"r","branch":"work"}`)
	if b := want[*wire.BranchCreated](g); b.Branch != "work" || b.RunID != "r" {
		t.Errorf("%+v", b)
	}
	if res := want[*wire.SandboxControlResult](g); !res.OK || *res.Code != 0 || !strings.Contains(res.Stderr, "work") {
		t.Errorf("%+v", res)
	}
}

func TestACountedFrameIsTakenOnceAndAcknowledged(t *testing.T) {
	t.Parallel()
	g := newGateway(t, newAck)
	g.start(nil)
	g.openRun()
	for range 2 {
		g.send(`{"type":"session_cancel","run_id":"r","control_id":"once","session_id":"","seq":1}`)
	}
	g.send(`{"type":"session_cancel","run_id":"r","control_id":"last","session_id":"","seq":2}`)
	acks, results := []int64{}, 0
	for len(acks) < 3 || results < 2 {
		switch f := g.next().frame.(type) {
		case *wire.Ack:
			acks = append(acks, f.Seq)
		case *wire.SessionControlResult:
			results++
		}
	}
	if acks[0] != 1 || acks[1] != 1 || acks[2] != 2 || results != 2 {
		t.Errorf("acks %v, %d results", acks, results)
	}
}

func TestRegisterAgentNamesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	g := newGateway(t, newAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "wait")
	g.said()
	g.cut()
	runs := g.accept().Agent.Runs
	if len(runs) != 1 || !runs[0].Running || runs[0].SessionID != "s-1" || len(runs[0].PromptIDs) != 1 || runs[0].PromptIDs[0] != "p" {
		t.Errorf("%+v", runs)
	}
	g.prompt("p", "wait") // not given to the agent again: one cancel ends it
	g.send(`{"type":"session_cancel","run_id":"r","control_id":"c","session_id":"s-1"}`)
	if res := want[*wire.PromptResult](g); *res.StopReason != "cancelled" {
		t.Errorf("%+v", res)
	}
}

// TestContractsFramesToTheProxy: the contract's own frames, §3 word by word and with no member more.
func TestContractsFramesToTheProxy(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{ "type": "acp_open", "run_id": "r" }`)
	if o := want[*wire.Opened](g); !o.OK || o.RunID != "r" {
		t.Fatalf("%+v", o)
	}
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p1","prompt":[{"type":"text","text":"hello"}]}`)
	if said, _ := g.said(); said != "hi" {
		t.Error(said)
	}
	if res := want[*wire.PromptResult](g); !res.OK || res.PromptID != "p1" || *res.StopReason != "end_turn" {
		t.Errorf("%+v", res)
	}
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p2","session_id":"s-1","context":"c","prompt":[{"type":"text","text":"ask"}],"timeout_ms":60000}`)
	asked := signal[*wire.PermissionRequest](g)
	g.send(`{"type":"session_permission","run_id":"r","session_id":"` + asked.SessionID + `","request_id":"` + asked.RequestID.String() + `","outcome":"selected","option_id":"yes"}`)
	if res := want[*wire.PromptResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
	for control, frame := range map[string]string{
		"c1": `{"type":"session_cancel","run_id":"r","control_id":"c1","session_id":"s-1"}`,
		"c2": `{"type":"session_set_mode","run_id":"r","control_id":"c2","session_id":"s-1","mode_id":"plan"}`,
		"c3": `{"type":"session_set_model","run_id":"r","control_id":"c3","session_id":"s-1","model_id":"m"}`,
		"c4": `{"type":"session_set_config_option","run_id":"r","control_id":"c4","session_id":"s-1","config_id":"x","value":true}`,
	} {
		g.send(frame)
		if res := want[*wire.SessionControlResult](g); res.ControlID != control || !res.OK && res.Error == "" {
			t.Errorf("%s: %+v", frame, res)
		}
	}
	g.send(`{"type":"sandbox_control","action":"inspect","run_id":"r"}`)
	if res := want[*wire.SandboxControlResult](g); !res.OK || res.Action != "inspect" {
		t.Errorf("%+v", res)
	}
	g.send(`{ "type": "acp_close", "run_id": "r" }`)
	if e := want[*wire.Exit](g); e.RunID != "r" {
		t.Errorf("%+v", e)
	}
}
