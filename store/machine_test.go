package store_test

import (
	"slices"
	"testing"

	"aqueduct/store"
)

// The tables of the machines, written down a second time as the design has them: a
// change of machine.go that is not a change of the design fails here.

func TestTurnMachine(t *testing.T) {
	every(t, store.AllTurnStatuses(), map[store.TurnStatus][]store.TurnStatus{
		"QUEUED":                  {"RUNNING", "FAILED", "CANCELLED"},
		"RUNNING":                 {"PAUSED_WAITING_APPROVAL", "PAUSED_WAITING_TOOL", "DONE", "FAILED", "CANCELLED"},
		"PAUSED_WAITING_APPROVAL": {"RUNNING", "FAILED", "CANCELLED"},
		"PAUSED_WAITING_TOOL":     {"RUNNING", "FAILED", "CANCELLED"},
		"DONE":                    nil,
		"FAILED":                  nil,
		"CANCELLED":               nil,
	})
	for _, s := range store.AllTurnStatuses() {
		want := s == store.TurnPausedApproval || s == store.TurnPausedTool
		if s.Paused() != want {
			t.Errorf("%s paused: %t", s, s.Paused())
		}
	}
}

func TestRunMachine(t *testing.T) {
	every(t, store.AllRunStatuses(), map[store.RunStatus][]store.RunStatus{
		"RESERVED":    {"RUNNING"},
		"RUNNING":     {"FINISHED", "INTERRUPTED", "CANCELLED", "FAILED"},
		"FINISHED":    nil,
		"INTERRUPTED": nil,
		"CANCELLED":   nil,
		"FAILED":      nil,
	})
}

func TestToolCallMachine(t *testing.T) {
	every(t, store.AllToolCallStatuses(), map[store.ToolCallStatus][]store.ToolCallStatus{
		"CREATED":          {"POLICY_CHECKED", "FAILED"},
		"POLICY_CHECKED":   {"BLOCKED", "WAITING_APPROVAL", "DISPATCHED", "FAILED"},
		"BLOCKED":          nil,
		"WAITING_APPROVAL": {"DISPATCHED", "FAILED", "TIMEOUT"},
		"DISPATCHED":       {"RUNNING", "WAITING_CLIENT", "SUCCEEDED", "FAILED", "TIMEOUT", "UNKNOWN"},
		"RUNNING":          {"SUCCEEDED", "FAILED", "TIMEOUT", "UNKNOWN"},
		"WAITING_CLIENT":   {"SUCCEEDED", "FAILED", "TIMEOUT"},
		"SUCCEEDED":        nil,
		"FAILED":           nil,
		"TIMEOUT":          nil,
		"UNKNOWN":          {"SUCCEEDED", "FAILED", "DISPATCHED"}, // a person decides
	})
}

func TestApprovalMachine(t *testing.T) {
	every(t, store.AllApprovalStatuses(), map[store.ApprovalStatus][]store.ApprovalStatus{
		"PENDING":   {"APPROVED", "REJECTED", "EXPIRED", "CANCELLED"},
		"APPROVED":  {"CANCELLED", "EXPIRED"}, // revoked before anybody acted on it; its asker asks for something else
		"REJECTED":  nil,
		"EXPIRED":   nil,
		"CANCELLED": nil,
	})
}

// every compares CanBecome with the table for all pairs, and for states that do not
// exist, and Terminal with having no way out.
func every[S interface {
	~string
	CanBecome(S) bool
}](t *testing.T, all []S, table map[S][]S) {
	t.Helper()
	if len(all) != len(table) {
		t.Errorf("%d states, %d in the table", len(all), len(table))
	}
	for _, from := range append(all, "", "NONSENSE") {
		ways := 0
		for _, to := range append(all, "", "NONSENSE") {
			want := slices.Contains(table[from], to)
			if got := from.CanBecome(to); got != want {
				t.Errorf("%q → %q: %t, the design says %t", from, to, got, want)
			}
			if want {
				ways++
			}
		}
		known := slices.Contains(all, from)
		if from, revocable := any(from).(store.ApprovalStatus); revocable && from == store.ApprovalApproved {
			continue // decided, and yet it may be revoked
		}
		if end, ok := any(from).(interface{ Terminal() bool }); ok && known && end.Terminal() != (ways == 0) {
			t.Errorf("%q is terminal: %t, with %d ways out", from, end.Terminal(), ways)
		}
	}
}
