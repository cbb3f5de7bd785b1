package storetest

import (
	"testing"

	"aqueduct/store"
)

// Run tries everything the contract promises, each part on a database of its own that open
// makes and closes with its test.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	parts := []struct {
		name string
		test func(*storeEnv)
	}{
		{"Scope", testScope},
		{"Sessions", testSessions},
		{"SessionBytes", testSessionBytes},
		{"SessionListing", testSessionListing},
		{"SessionNames", testSessionNames},
		{"Search", testSearch},
		{"SearchShared", testSearchShared},
		{"SearchPages", testSearchPages},
		{"SessionDeletion", testSessionDeletion},
		{"SessionClaim", testSessionClaim},
		{"SessionsWithWork", testSessionsWithWork},
		{"SessionsWithCommands", testSessionsWithCommands},
		{"AbandonedSessions", testAbandonedSessions},
		{"Turns", testTurns},
		{"ActiveTurn", testActiveTurn},
		{"TurnMoves", testTurnMoves},
		{"TurnMembers", testTurnMembers},
		{"Runs", testRuns},
		{"PassingOn", testPassingOn},
		{"NothingBeginsAfterItsTurn", testNothingBeginsAfterItsTurn},
		{"RunMoves", testRunMoves},
		{"RunMembers", testRunMembers},
		{"Events", testEvents},
		{"EventChain", testEventChain},
		{"EventBudget", testEventBudget},
		{"EventMarks", testEventMarks},
		{"Records", testRecords},
		{"RecordsOfSession", testRecordsOfSession},
		{"RunsWithin", testRunsWithin},
		{"Messages", testMessages},
		{"MessagesWithin", testMessagesWithin},
		{"MessageParts", testMessageParts},
		{"Purge", testPurge},
		{"PurgeInParts", testPurgeInParts},
		{"MessageUpsert", testMessageUpsert},
		{"KnownMessageIDs", testKnownMessageIDs},
		{"Branches", testBranches},
		{"LateMessages", testLateMessages},
		{"RunTails", testRunTails},
		{"StateChanges", testStateChanges},
		{"NewestRunOf", testNewestRunOf},
		{"BrokenRuns", testBrokenRuns},
		{"NoteDropped", testNoteDropped},
		{"ToolCalls", testToolCalls},
		{"ToolCallMoves", testToolCallMoves},
		{"ToolCallMembers", testToolCallMembers},
		{"ToolCallStamps", testToolCallStamps},
		{"Approvals", testApprovals},
		{"ApprovalMoves", testApprovalMoves},
		{"ToolCallWork", testToolCallWork},
		{"ToolCallKeys", testToolCallKeys},
		{"TakeToolCall", testTakeToolCall},
		{"ToolCallAttempts", testToolCallAttempts},
		{"ApprovalFilter", testApprovalFilter},
		{"ApprovalDelegation", testApprovalDelegation},
		{"ApprovalChanges", testApprovalChanges},
		{"ApprovalDeciders", testApprovalDeciders},
		{"Delegations", testDelegations},
		{"Shares", testShares},
		{"Tools", testTools},
		{"ToolListing", testToolListing},
		{"ToolPins", testToolPins},
		{"Agents", testAgents},
		{"ModelCalls", testModelCalls},
		{"Budgets", testBudgets},
		{"Tasks", testTasks},
		{"ContextEntries", testContextEntries},
		{"Blobs", testBlobs},
		{"AgentListing", testAgentListing}, {"Children", testChildren},
		{"Grants", testGrants},
		{"GrantUses", testGrantUses},
		{"GrantRevocation", testGrantRevocation},
		{"Outbox", testOutbox},
		{"DropOutbox", testDropOutbox},
		{"OutboxLanes", testOutboxLanes},
		{"Audit", testAudit},
		{"AuditAsKept", testAuditAsKept},
		{"Commands", testCommands},
		{"Proxies", testProxies},
		{"SandboxInstances", testSandboxInstances},
		{"UsedLinks", testUsedLinks},
		{"Credentials", testCredentials},
		{"CredentialsOfAUser", testCredentialsOfAUser},
		{"BatchOrder", testBatchOrder},
		{"BatchLost", testBatchLost},
		{"RecordOf", testRecordOf},
		{"BatchAtomic", testBatchAtomic},
		{"BatchRepeated", testBatchRepeated},
		{"BatchNumbered", testBatchNumbered},
		{"BatchPoison", testBatchPoison},
		{"OddText", testOddText},
		{"Tx", testTx},
		{"TxBroken", testTxBroken},
		{"Replicas", testReplicas},
		{"Fenced", testFenced},
		{"Ping", testPing},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.test(newStoreEnv(t, open(t)))
		})
	}
}
