package faults_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	// chaosThreads threads have five clients each, on five surfaces.
	chaosThreads = 8
	// chaosTime is for each database, in "make test"; AQUEDUCT_CHAOS is another.
	chaosTime = 20 * time.Second
	// chaosTTL is how long a question waits: so short that some expire.
	chaosTTL = 6 * time.Second
	// chaosCatchUp is within what a server has kept what waited for the database: it recovers, and is tried again every second.
	chaosCatchUp = 3 * time.Second
	// chaosQuiet is within what all has to come to rest once the last server is up: a server of
	// another name is given up for dead after ten seconds, and questions expire.
	chaosQuiet = time.Minute
)

// TestChaos runs an agent that talks, asks and calls tools at random. Forty clients leave and come back on every surface, and
// people decide on every surface. The server is killed or stopped every few seconds and comes back, sometimes under another
// name. PostgreSQL is stopped for a moment as often. All promises hold afterwards. AQUEDUCT_CHAOS sets the duration,
// AQUEDUCT_CHAOS_SEED the random choices.
func TestChaos(t *testing.T) {
	t.Parallel()
	span, seed := chaosTime, uint64(time.Now().UnixNano())
	if text := os.Getenv("AQUEDUCT_CHAOS"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("AQUEDUCT_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	databases(t, func(t0 *testing.T, database string) {
		t := &recalling{TB: t0}
		t.Logf("AQUEDUCT_CHAOS_SEED=%d", seed)
		var postgres *storetest.Server
		if !strings.HasPrefix(database, "sqlite") {
			postgres = storetest.NewServer(t)
			database = postgres.DSN
		}
		c := &chaos{
			t: t, seed: seed, agent: newChaosAgent(t, seed), stop: make(chan struct{}),
			posted: make(map[string]bool), wins: make(map[string][]string), counts: make(map[string]int),
		}
		s := &chaosServers{chaos: c, postgres: postgres, serverEnv: &serverEnv{t: t, database: database, agent: &agent{Server: c.agent.Server}}}
		t.Cleanup(func() {
			if t.Failed() {
				s.print()
				t.recall()
			}
		})
		s.tools()
		s.next("one")
		c.enter()
		t.Cleanup(func() { // after a failure in between
			if !c.stopped() {
				close(c.stop)
			}
			c.people.Wait()
		})
		s.trouble(span)
		s.quiet()
		s.afterwards()
	})
}

// recalling is a test that repeats its errors behind the servers' logs: a reader of the end of a long output finds them there.
type recalling struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (t *recalling) Errorf(format string, args ...any) {
	t.Helper()
	t.mu.Lock()
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
	t.mu.Unlock()
	t.TB.Errorf(format, args...)
}

func (t *recalling) Fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *recalling) recall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Logf("failed, with %d errors:\n%s", len(t.errors), strings.Join(t.errors[:min(len(t.errors), 10)], "\n"))
}

// enter lets everybody in.
func (c *chaos) enter() {
	for i := range chaosThreads {
		thread := fmt.Sprint("C", i)
		client := func(kind string, act func(l *copied)) {
			l := c.copies(kind+"-"+thread, thread)
			c.people.Go(func() { act(l) })
		}
		client("thread", c.watchThread)
		client("runs", c.watchRuns)
		client("joins", c.joins)
		speaks := i%4 == 3 // this thread's prompts come over ingress
		e := c.listener(thread, speaks)
		c.people.Go(e.listen)
		if speaks {
			client("joins2", c.joins)
		} else {
			client("prompts", c.prompts)
		}
		c.people.Go(func() { c.socket(thread) })
	}
	for i := range 2 {
		c.people.Go(func() { c.decides(fmt.Sprint("person", i)) })
	}
}

// chaosServers are the servers, one after the other.
type chaosServers struct {
	*chaos
	*serverEnv
	t        testing.TB
	postgres *storetest.Server // that is stopped now and then; nil for SQLite
	env      []string
	all      []*server
	names    []string
	kills    [3]int // kill -9, SIGTERM, stops of the database
	went     []time.Time
	away     [][2]time.Time // when the database was, and the servers had not caught up
}

func (s *chaosServers) tools() {
	s.t = s.serverEnv.t
	file := filepath.Join(s.t.TempDir(), "tools.yaml")
	text := fmt.Sprintf("tools:\n- {name: pay, kind: server_tool, endpoint: \"%s/tool\", policy: %s}\n- {name: look, kind: server_tool, endpoint: \"%s/tool\", policy: %s}\n",
		s.chaos.agent.URL, asksFirst, s.chaos.agent.URL, asksNobody)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.env = []string{"AQUEDUCT_TOOLS_FILE=" + file, "AQUEDUCT_OUTBOUND=127.0.0.0/8", "AQUEDUCT_APPROVAL_TTL=" + chaosTTL.String()}
}

// next starts a server of a name.
func (s *chaosServers) next(name string) {
	s.t.Helper()
	s.start(program.Shipped, append(s.env, "AQUEDUCT_NAME="+name)...)
	s.all = append(s.all, s.serverEnv.server)
	s.names = append(s.names, name)
	s.at.Store(s.serverEnv.server)
}

// trouble kills and stops servers for a while. One of another name is mostly started where
// that takes over at once: on PostgreSQL the threads of one that was killed wait ten seconds.
func (s *chaosServers) trouble(span time.Duration) {
	r := rng(s.seed, "trouble")
	waits := !strings.HasPrefix(s.database, "sqlite")
	for end := time.Now().Add(span); time.Now().Before(end); {
		up := time.Duration(1500+r.IntN(3500)) * time.Millisecond
		if r.IntN(5) == 0 {
			up = time.Duration(r.IntN(200)) * time.Millisecond // while it takes up what it finds
		}
		<-time.After(up)
		if s.postgres != nil && r.IntN(2) == 0 {
			began := time.Now()
			s.postgres.Stop([]string{"fast", "immediate"}[r.IntN(2)])
			<-time.After(time.Duration(r.IntN(1700)) * time.Millisecond)
			s.postgres.Start()
			s.away = append(s.away, [2]time.Time{began, time.Now().Add(chaosCatchUp)})
			s.kills[2]++
			continue
		}
		s.went = append(s.went, time.Now())
		name, other := s.names[len(s.names)-1], 3
		if r.IntN(2) == 0 {
			s.serverEnv.server.kill()
			s.kills[0]++
			if waits {
				other = 8
			}
		} else {
			s.signal(syscall.SIGTERM)
			s.gone(30 * time.Second)
			s.kills[1]++
		}
		s.went = append(s.went, time.Now())
		if r.IntN(other) == 0 {
			name = fmt.Sprint("name-", len(s.names))
		}
		s.next(name)
	}
}

// calm is the time in which the last server works without trouble: a while, and until everything
// that the harness can do was done. Where servers of other names died before they had lived for ten
// seconds, none before the last could take over the threads of the first.
func (s *chaosServers) calm() {
	<-time.After(chaosTTL / 2)
	for late := time.Now().Add(chaosQuiet); len(s.undone()) > 0 && time.Now().Before(late); {
		<-time.After(100 * time.Millisecond)
	}
}

// undone is what the harness can do and has not done.
func (s *chaosServers) undone() (list []string) {
	s.mu.Lock()
	for _, what := range []string{"answers by REST", "answers by resume[]", "answers by tool message", "answers by socket", "answers by ingress"} {
		if s.counts[what] == 0 {
			list = append(list, what)
		}
	}
	s.mu.Unlock()
	if s.chaos.agent.executions() == 0 {
		list = append(list, "executions of tools")
	}
	return list
}

// quiet has everybody leave and waits until nothing is under way, answering what is asked.
func (s *chaosServers) quiet() {
	s.t.Helper()
	s.calm()
	close(s.stop)
	s.people.Wait()
	r := rng(s.seed, "quiet")
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	late := time.After(chaosQuiet)
	for {
		for _, q := range s.open() {
			s.post(s.serverEnv.server, q, r.IntN(2) == 0)
		}
		rest := s.unfinished()
		if len(rest) == 0 {
			return
		}
		select {
		case <-look.C:
		case <-late:
			s.t.Errorf("after %v without a fault there is still:\n%s", chaosQuiet, strings.Join(rest, "\n"))
			return
		}
	}
}

// db opens the database beside the server.
func (s *chaosServers) db() *sql.DB {
	s.t.Helper()
	driver, dsn := "pgx", s.database
	if path, ok := strings.CutPrefix(s.database, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=query_only(1)&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

// rows gives the rows of a query as lines.
func (s *chaosServers) rows(query string) (lines []string) {
	s.t.Helper()
	db := s.db()
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		s.t.Fatal(err)
	}
	for rows.Next() {
		cells, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			s.t.Fatal(err)
		}
		words := make([]string, len(cells))
		for i, c := range cells {
			words[i] = c.String
		}
		lines = append(lines, strings.Join(words, "|"))
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return lines
}

// unfinished is what is not at an end: a Run, a Turn, a question, a tool call.
func (s *chaosServers) unfinished() []string {
	s.t.Helper()
	return s.rows(`SELECT 'run', x.external_id, r.external_id, r.turn_id, r.status FROM runs r JOIN sessions x ON x.session_id = r.session_id WHERE r.status IN ('RESERVED', 'RUNNING')
		UNION ALL SELECT 'turn', x.external_id, t.turn_id, t.error_code, t.status FROM turns t JOIN sessions x ON x.session_id = t.session_id WHERE t.status NOT IN ('DONE', 'FAILED', 'CANCELLED')
		UNION ALL SELECT 'question', kind, approval_id, turn_id, status FROM approvals WHERE status = 'PENDING'
		UNION ALL SELECT 'tool call', tool_name, tool_call_id, turn_id, status FROM tool_calls WHERE status NOT IN ('BLOCKED', 'SUCCEEDED', 'FAILED', 'TIMEOUT')
			AND NOT (status = 'DISPATCHED' AND tool_name = 'request_permission')`) // approved in the moment in which its Turn ended
}

// afterwards checks what is promised.
func (s *chaosServers) afterwards() {
	s.t.Helper()
	for i := range chaosThreads {
		s.usable(fmt.Sprint("C", i))
	}
	logs := make(map[string][]event)
	turns := make(map[string]string) // by Run: its Turn
	for _, row := range s.rows(`SELECT external_id, run_id, turn_id FROM runs`) {
		words := strings.Split(row, "|")
		turns[words[0]], turns[words[1]] = words[2], words[2]
	}
	for i := range chaosThreads {
		thread := fmt.Sprint("C", i)
		logs[thread] = s.log1(thread)
		newLedger(s.t, thread, 0).grammar(logs[thread])
		s.words(thread, logs[thread], turns)
	}
	for _, l := range s.ledgers {
		s.copied(l, logs[l.thread])
	}
	for _, e := range s.ears {
		s.received(e, logs[e.thread])
	}
	s.questions()
	s.executions()
	s.report(logs)
}

// usable: a new message gets an answer.
func (s *chaosServers) usable(thread string) {
	s.t.Helper()
	in, err := s.chat(thread, thread+"-plain", chaosPlain)
	if err != nil {
		s.t.Errorf("thread %s is not usable: %v", thread, err)
		return
	}
	all, err := newLedger(s.t, thread, 0).drain(in)
	if err != nil || len(all) == 0 || all[len(all)-1].kind() != "RUN_FINISHED" || len(strings.Fields(text(all))) != 3 {
		s.t.Errorf("thread %s is not usable: %v, %v", thread, all, err)
	}
}

// log1 is a thread's whole log.
func (s *chaosServers) log1(thread string) []event {
	s.t.Helper()
	var info threadInfo
	if _, err := s.get("/api/threads/"+thread, &info); err != nil || info.LastRun == nil {
		s.t.Fatalf("thread %s: %+v, %v", thread, info, err)
	}
	return s.whole(s.t, thread, info.LastRun.LastSeq)
}

// words: what the agent sent in each of its calls is there in order, once and without a hole,
// and to the end unless its Turn ended with a code or was cancelled, or the agent was called
// again because a server was lost.
func (s *chaosServers) words(thread string, log []event, turns map[string]string) {
	s.t.Helper()
	byTurn, ended, turn := make(map[string]string), make(map[string]string), ""
	for _, e := range log {
		var body struct {
			RunID string
			Code  string
		}
		_ = json.Unmarshal([]byte(e.data), &body) // what is no event has no kind, and the grammar finds it
		switch e.kind() {
		case "RUN_STARTED":
			turn = turns[body.RunID]
		case "TEXT_MESSAGE_CONTENT":
			byTurn[turn] += text([]event{e})
		case "RUN_ERROR":
			ended[turn] = body.Code
			if body.Code == "" {
				s.t.Errorf("thread %s, event %d ends without a code: %s", thread, e.id, e.data)
			}
		case "RUN_FINISHED":
			if strings.Contains(e.data, `"cancelled"`) {
				ended[turn] = "cancelled"
			}
		}
	}
	said, last := make(map[int]*chaosCall), make(map[string]int)
	for _, call := range s.chaos.agent.calls {
		said[call.no], last[call.turn] = call, call.no
	}
	heard := make(map[int]int)
	for turn, all := range byTurn {
		words, err := numberedWords(all)
		if err != nil {
			s.t.Errorf("thread %s, turn %s: %v", thread, turn, err)
		}
		for _, w := range words {
			call := said[w[0]]
			switch {
			case call == nil || call.turn != turn:
				s.t.Errorf("thread %s: turn %s holds %d.%d, of another", thread, turn, w[0], w[1])
			case w[1] != heard[w[0]]+1:
				s.t.Errorf("thread %s, turn %s: after %d.%d comes %d.%d", thread, turn, w[0], heard[w[0]], w[0], w[1])
			}
			heard[w[0]] = w[1]
		}
	}
	for _, call := range s.chaos.agent.calls {
		_, here := byTurn[call.turn]
		resumed := last[call.turn] != call.no && s.lost(call)
		if here && heard[call.no] != call.said && ended[call.turn] == "" && !resumed {
			s.t.Errorf("thread %s, turn %s (%v): of call %d, the last is %d, there are %d of %d words, and no code (its own end %v, it took %v)", thread, call.turn,
				s.rows("SELECT status, error_code, ended_at FROM turns WHERE turn_id = '"+call.turn+"'"), call.no, last[call.turn], heard[call.no], call.said, call.done, call.to.Sub(call.from))
		}
	}
}

// lost tells whether a server went while it read a call of the agent, or before it could keep what it had read.
func (s *chaosServers) lost(call *chaosCall) bool {
	until := call.to.Add(time.Second)
	for _, away := range s.away { // oldest first
		if away[0].Before(until) && away[1].After(until) {
			until = away[1]
		}
	}
	return slices.ContainsFunc(s.went, func(at time.Time) bool { return at.After(call.from) && at.Before(until) })
}

// copied: a client of SSE has a copy of the log, of the parts it asked for without a hole.
func (s *chaosServers) copied(l *copied, log []event) {
	s.t.Helper()
	if strings.HasPrefix(l.who, "thread-") { // it comes back a last time for the rest
		next := int64(len(l.seen)) + 1
		if in, err := s.stream("GET", "/api/threads/"+l.thread+"/events?after=0", nil, lastID(next)...); err == nil && next <= int64(len(log)) {
			leave := time.AfterFunc(20*time.Second, in.cancel)
			for next <= int64(len(log)) {
				e, err := in.next()
				if err != nil || e.id != next {
					s.t.Errorf("client %s: instead of %d comes %d, %v", l.who, next, e.id, err)
					break
				}
				l.seen[e.id], next = e.data, next+1
			}
			leave.Stop()
			in.close()
		}
		if len(l.seen) != len(log) {
			s.t.Errorf("client %s has %d events of %d", l.who, len(l.seen), len(log))
		}
	}
	if l.broken != "" {
		s.t.Errorf("client %s: %s", l.who, l.broken)
	}
	(&ledger{t: s.t, thread: l.thread, seen: l.seen}).compare(log)
}

// received: a client of the channel has the text of the log from the first that it received on.
func (s *chaosServers) received(e *ear, log []event) {
	s.t.Helper()
	final := int64(0)
	for _, ev := range log {
		if ev.kind() == "TEXT_MESSAGE_CONTENT" {
			final = ev.id
		}
	}
	e.speaks = true // what comes twice now may be sent again
	e.whole = true  // one that was never there while the agent spoke has nothing to come back to
	for end := time.Now().Add(20 * time.Second); e.last/10 < final && time.Now().Before(end); {
		e.connection("", rng(0, ""), time.Second, func() bool { return e.last/10 >= final })
	}
	if e.broken != "" {
		s.t.Errorf("ingress of %s: %s", e.thread, e.broken)
	}
	missing := 0
	heard := make(map[int64]string)
	for seq, text := range e.texts {
		heard[seq/10] += text
	}
	for _, ev := range log {
		if ev.kind() != "TEXT_MESSAGE_CONTENT" || ev.id < e.first/10 {
			continue
		}
		if want := text([]event{ev}); heard[ev.id] != want {
			if missing++; missing < 4 {
				s.t.Errorf("ingress of %s: event %d is %q, heard %q (from %d to %d)", e.thread, ev.id, want, heard[ev.id], e.first/10, e.last/10)
			}
		}
		delete(heard, ev.id)
	}
	if missing > 0 || len(heard) > 0 {
		s.t.Errorf("ingress of %s: %d texts are missing, %d are not of the log; last_seq %d, errors %v", e.thread, missing, len(heard), e.last, e.codes)
	}
}

// questions: each was settled once, every caller was given the same winner, and the agent
// received each decision once, and the one that was made.
func (s *chaosServers) questions() {
	s.t.Helper()
	settled := make(map[string]int)
	for _, id := range s.rows(`SELECT subject_id FROM audit WHERE action IN ('approval.decided', 'approval.expired', 'approval.cancelled', 'tool_call.settled')`) {
		settled[id]++
	}
	for _, row := range s.rows(`SELECT approval_id, title, status, kind, decided_via FROM approvals`) {
		words := strings.Split(row, "|")
		id, title, status := words[0], words[1], words[2]
		s.count("questions " + status + " by " + words[4])
		if settled[id] != 1 {
			s.t.Errorf("question %s was settled %d times", row, settled[id])
		}
		if wins := s.wins[id]; len(wins) > 1 || len(wins) == 1 && wins[0] != status {
			s.t.Errorf("question %s was won by %q", row, wins)
		}
		told := s.chaos.agent.told[title]
		if len(told) > 1 || len(told) == 1 && told[0] != (status == "APPROVED") {
			s.t.Errorf("of question %s the agent was told %v", row, told)
		}
	}
	for key, n := range s.chaos.agent.called {
		if n > 1 {
			s.t.Errorf("the dispatch %q reached the agent %d times", key, n)
		}
	}
}

// executions: a tool ran at most once, after a yes where that is needed, and for an agent
// that was there.
func (s *chaosServers) executions() {
	s.t.Helper()
	known := make(map[string]bool)
	for _, row := range s.rows(`SELECT c.tool_call_id, c.tool_name, COALESCE(a.status, ''), c.status, c.error_code, c.running_at, t.ended_at, t.status, t.error_code
		FROM tool_calls c JOIN turns t ON t.turn_id = c.turn_id LEFT JOIN approvals a ON a.approval_id = c.tool_call_id`) {
		words := strings.Split(row, "|")
		known[words[0]] = true
		ran := len(s.chaos.agent.ran[words[0]])
		if ran == 0 {
			continue
		}
		s.count("tools run")
		began, _ := strconv.ParseInt(words[5], 10, 64)
		ended, _ := strconv.ParseInt(words[6], 10, 64)
		switch {
		case ran > 1:
			s.t.Errorf("the tool call %s ran %d times", row, ran)
		case words[1] == "pay" && words[2] != "APPROVED":
			s.t.Errorf("the tool call %s ran without a yes", row)
		case ended != 0 && began > ended:
			s.t.Errorf("the tool call %s began %d ms after its Turn had ended", row, began-ended)
		}
	}
	for id := range s.chaos.agent.ran {
		if !known[id] {
			s.t.Errorf("the tool ran for %s, which nobody knows", id)
		}
	}
}

func (s *chaosServers) report(logs map[string][]event) {
	events, codes := 0, make(map[string]int)
	for _, log := range logs {
		events += len(log)
		for _, e := range log {
			if e.kind() == "RUN_ERROR" {
				codes[codeOf(e)]++
			}
		}
	}
	if undone := s.undone(); len(undone) > 0 {
		s.t.Errorf("there were no %v", undone)
	}
	lines := make([]string, 0, len(s.counts))
	for what, n := range s.counts {
		lines = append(lines, fmt.Sprintf("%s: %d", what, n))
	}
	slices.Sort(lines)
	s.t.Logf("%d kill -9, %d SIGTERM, %d stops of the database, %d names; %d prompts, %d calls of the agent, %d events kept, ended with %v; %s", s.kills[0], s.kills[1], s.kills[2], len(slices.Compact(s.names)),
		len(s.posted), len(s.chaos.agent.calls), events, codes, strings.Join(lines, ", "))
}

func (s *chaosServers) print() {
	for i, server := range s.all[max(0, len(s.all)-4):] {
		log := server.log()
		s.t.Logf("server %d of %d said:\n%s", max(0, len(s.all)-4)+i+1, len(s.all), log[max(0, len(log)-20_000):])
	}
}
