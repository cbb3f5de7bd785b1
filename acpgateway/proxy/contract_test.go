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
