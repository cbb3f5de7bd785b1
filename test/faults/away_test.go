package faults_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// awaySpans are the times for which the database is away. Runs end within the short ones. The long ones outlast a pool, or a
// retry with a fixed number of tries.
var awaySpans = []time.Duration{0, 300 * time.Millisecond, 800 * time.Millisecond, 1100 * time.Millisecond, 1700 * time.Millisecond, 3 * time.Second, 12 * time.Second}

const (
	// awayRounds is how often each kind of fault has each span in "make test"; AQUEDUCT_AWAY is how many faults of each kind
	// there are in "make soak".
	awayRounds = 3
	// awayThreads is how many chats are under way.
	awayThreads = 8
	// awayUp is the least time between two faults, awayEnds how many prompts are answered in it.
	awayUp   = 700 * time.Millisecond
	awayEnds = 4
)

// awayPrompts are the prompts for the agent, and how often its numbers from 1 to n are in the chat then.
var awayPrompts = []struct {
	text     string
	n, times int
}{
	{"count 150 10ms", 150, 1},
	{"ask 40 10ms", 40, 2},
	{"use 80 10ms", 80, 1},
	{"call 60 10ms", 60, 1},
}

// outage is a kind of fault: the database of its servers, and how that goes away and comes back.
type outage struct {
	database    string
	begin, over func()
}

// outages are the kinds of faults, each with a database of its own.
var outages = map[string]func(t *testing.T) outage{
	"fast stop":      func(t *testing.T) outage { return stopped(t, "fast") },
	"immediate stop": func(t *testing.T) outage { return stopped(t, "immediate") },
	"kill": func(t *testing.T) outage {
		s := storetest.NewServer(t)
		return outage{s.DSN, s.Kill, s.Start}
	},
	"freeze": func(t *testing.T) outage {
		s := storetest.NewServer(t)
		return outage{s.DSN, s.Freeze, s.Thaw}
	},
	"resets": func(t *testing.T) outage {
		p, dsn := storetest.NewWire(t, storetest.NewServer(t).DSN)
		return outage{dsn, p.Refuse, p.Restore}
	},
	"answers eaten": func(t *testing.T) outage {
		p, dsn := storetest.NewWire(t, storetest.NewServer(t).DSN)
		return outage{dsn, p.MuteAll, func() { p.Cut(); p.Thaw() }}
	},
	"sqlite locked": locked,
}

func stopped(t *testing.T, mode string) outage {
	s := storetest.NewServer(t)
	return outage{s.DSN, func() { s.Stop(mode) }, s.Start}
}

// locked is a SQLite file that another program holds locked.
func locked(t *testing.T) outage {
	path := storetest.SQLite(t)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	run := func(statement string) func() {
		return func() {
			if _, err := db.Exec(statement); err != nil {
				t.Error(err)
			}
		}
	}
	return outage{"sqlite:" + path, run("BEGIN IMMEDIATE"), run("ROLLBACK")}
}

// TestDatabaseAway takes the database away for a while. Meanwhile chats stream fast, end, ask, call tools and call other
// agents, and people decide. No Run ends because of it, every stream ends, and each agent is called once. Each byte that a
// client saw under an id is the byte that is kept.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	faults := awayRounds * len(awaySpans)
	if text := os.Getenv("AQUEDUCT_AWAY"); text != "" {
		var err error
		if faults, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup // of kinds, which mostly wait
	for kind, of := range outages {
		all.Go(func() {
			t.Run(kind, func(t *testing.T) { newAwayChats(t, of(t)).suffer(faults) })
		})
	}
	all.Wait()
}

// awayChats are the chats of one server.
type awayChats struct {
	*serverEnv
	t      *testing.T
	outage outage
	tool   *awayTool
	stop   atomic.Bool
	turns  atomic.Int64
	ended  atomic.Int64
}

func newAwayChats(t *testing.T, o outage) *awayChats {
	a := &awayChats{t: t, outage: o, tool: newAwayTool(t)}
	file := filepath.Join(t.TempDir(), "tools.yaml")
	text := fmt.Sprintf("tools:\n- {name: look, kind: server_tool, endpoint: %q, policy: %s}\n", a.tool.URL, asksNobody)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a.serverEnv = &serverEnv{t: t, database: o.database, agent: newAgent(t)}
	a.flags = []string{"--agent", "other=" + a.agent.URL}
	a.start(program.Shipped, "AQUEDUCT_TOOLS_FILE="+file, "AQUEDUCT_OUTBOUND=127.0.0.0/8")
	return a
}

// awayTool is a tool that counts its executions.
type awayTool struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	calls map[string]int // by ToolCall
}

func newAwayTool(t *testing.T) *awayTool {
	a := &awayTool{t: t, calls: make(map[string]int)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ToolCallID string `json:"tool_call_id"`
		}
		if json.NewDecoder(r.Body).Decode(&call) != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.calls[call.ToolCallID]++
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"seen":true}`)) // the caller may have gone
	}))
	t.Cleanup(a.Close)
	return a
}

// once checks that no call was executed twice.
func (a *awayTool) once() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, n := range a.calls {
		if n > 1 {
			a.t.Errorf("tool call %s was executed %d times", id, n)
		}
	}
}

// suffer takes the database away that often, with each span in turn, and checks the chats afterwards.
func (a *awayChats) suffer(faults int) {
	var chats sync.WaitGroup
	ledgers := make([]*awayLedger, awayThreads)
	for i := range ledgers {
		l := &awayLedger{ledger: newLedger(a.t, fmt.Sprint("away", i), 0), chats: a}
		ledgers[i] = l
		chats.Go(func() { l.talk(i) })
		chats.Go(l.follow)
	}
	for i := 0; i < faults && !a.t.Failed(); i++ {
		a.calm(time.Duration(i%5) * 150 * time.Millisecond)
		a.outage.begin()
		<-time.After(awaySpans[i%len(awaySpans)])
		a.outage.over()
	}
	a.stop.Store(true)
	chats.Wait()
	events := 0
	for _, l := range ledgers {
		events += l.check()
	}
	a.overlaps()
	if most := a.agent.most(); most > 1 {
		a.t.Errorf("one call reached the agent %d times", most)
	}
	a.tool.once()
	a.t.Logf("%s: %d faults, %d prompts, %d events", a.t.Name(), faults, a.turns.Load(), events)
	if a.t.Failed() {
		said := a.log()
		a.t.Logf("the server said:\n%s", said[max(0, len(said)-8000):])
	}
}

// calm waits until some prompts were answered, and a while.
func (a *awayChats) calm(while time.Duration) {
	a.t.Helper()
	want, late := a.ended.Load()+awayEnds, time.Now().Add(awayPatience)
	for a.ended.Load() < want {
		<-time.After(10 * time.Millisecond)
		if time.Now().After(late) {
			a.t.Errorf("%d prompts were answered within %v with a database", a.ended.Load()-want+awayEnds, awayPatience)
			return
		}
	}
	<-time.After(awayUp + while)
}

// overlaps asks the database itself for rows that do not begin where the row before them ends.
func (a *awayChats) overlaps() {
	a.t.Helper()
	driver, dsn := "pgx", a.database
	if path, ok := strings.CutPrefix(a.database, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=query_only(1)&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	var n int
	err = db.QueryRow(`SELECT count(*) FROM (SELECT last_seq - n AS before, lag(last_seq, 1, 0) OVER (PARTITION BY session_id ORDER BY last_seq) AS ended FROM events) x
		WHERE before <> ended`).Scan(&n)
	if err != nil || n > 0 {
		a.t.Errorf("%d rows do not begin where the one before ends: %v", n, err)
	}
}

// awayLedger records the events that the clients of one chat have seen, and its prompts.
type awayLedger struct {
	*ledger
	chats *awayChats
	want  []string // the text of each Turn, in order
	over  atomic.Bool
}

// talk has one prompt after the other answered, until the faults are over.
func (l *awayLedger) talk(chat int) {
	defer l.over.Store(true)
	for i := 0; !l.chats.stop.Load() && !l.t.Failed(); i++ {
		p := awayPrompts[(chat+i)%len(awayPrompts)]
		var numbers strings.Builder
		for range p.times {
			for n := 1; n <= p.n; n++ {
				fmt.Fprintf(&numbers, "%d ", n)
			}
		}
		l.want = append(l.want, numbers.String())
		l.chats.turns.Add(1)
		l.prompt(fmt.Sprintf("%s-%d", l.thread, i), p.text)
		l.chats.ended.Add(1)
	}
}

// prompt posts a prompt until it is accepted, reads its stream to its end, and answers its question.
func (l *awayLedger) prompt(run, text string) {
	in := l.accepted("POST", "/api/agui/chat?follow=1", prompt(l.thread, run, text))
	if in == nil {
		return
	}
	var decide sync.WaitGroup
	defer decide.Wait()
	if strings.HasPrefix(text, "ask") {
		decide.Go(func() { l.approve(run) })
	}
	all, err := l.drain(in)
	if err != nil || len(all) == 0 || !all[len(all)-1].terminal() {
		last := "nothing"
		if len(all) > 0 {
			last = all[len(all)-1].data
		}
		l.t.Errorf("%s: the stream of %q breaks off after %s: %v", run, text, last, err)
	}
}

// awayPatience is how long a client repeats a request: longer than the database is ever away.
const awayPatience = time.Minute

// accepted sends a request until the server is no longer in trouble, and gives its stream.
func (l *awayLedger) accepted(method, path string, body []byte, header ...string) *stream {
	for late := time.Now().Add(awayPatience); ; {
		in, err := l.chats.stream(method, path, body, header...)
		if err == nil {
			return in
		}
		if !strings.Contains(err.Error(), "HTTP 503") || time.Now().After(late) {
			l.t.Errorf("%s %s: %v", method, path, err)
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
}

// approve approves the one question of a Run. A decision that got no answer may have counted: it is sent again.
func (l *awayLedger) approve(run string) {
	question := ""
	for late := time.Now().Add(awayPatience); time.Now().Before(late) && !l.t.Failed(); {
		<-time.After(20 * time.Millisecond)
		var info threadInfo
		if question == "" {
			if _, err := l.chats.get("/api/threads/"+l.thread, &info); err != nil || len(info.Questions) == 0 {
				continue
			}
			question = info.Questions[0]
		}
		status, out, err := l.chats.decide(question, "approve")
		if err == nil && status == http.StatusOK && out.Status == "APPROVED" {
			return
		}
		if err == nil && status != http.StatusServiceUnavailable {
			l.t.Errorf("%s: the approval is answered by HTTP %d %+v", run, status, out)
			return
		}
	}
	l.t.Errorf("%s: the question was not approved", run)
}

// follow tails the thread from its first event to the last event that talk has seen, through all faults.
func (l *awayLedger) follow() {
	next := int64(1)
	var late time.Time
	for {
		in, err := l.chats.stream("GET", "/api/threads/"+l.thread+"/events?after=0", nil, lastID(next)...)
		if err != nil {
			<-time.After(50 * time.Millisecond) // there is no thread yet, or no database
		} else {
			next = l.tail(in, next)
		}
		l.mu.Lock()
		all := int64(len(l.seen)) < next
		l.mu.Unlock()
		if l.over.Load() && all {
			return
		}
		if l.over.Load() && late.IsZero() {
			late = time.Now().Add(awayPatience)
		}
		if !late.IsZero() && time.Now().After(late) {
			l.t.Errorf("%s: the follower has %d events, others have seen %d", l.thread, next-1, len(l.seen))
			return
		}
	}
}

// tail reads a connection for a second or two, or to its end, and gives the position after the last.
func (l *awayLedger) tail(in *stream, next int64) int64 {
	defer in.close()
	leave := time.AfterFunc(2*time.Second, in.cancel)
	defer leave.Stop()
	for {
		e, err := in.next()
		if err != nil {
			return next
		}
		if e.id != next {
			l.t.Errorf("%s: a follower gets event %d after %d", l.thread, e.id, next-1)
		}
		l.note(e)
		next = e.id + 1
	}
}

// check compares the events that were seen with the log, and the log with the prompts.
func (l *awayLedger) check() (events int) {
	l.t.Helper()
	_, run := l.chats.settled(l.t, l.thread)
	log := l.chats.whole(l.t, l.thread, run.LastSeq)
	l.compare(log)
	l.grammar(log)
	for _, e := range log {
		if e.kind() == "RUN_ERROR" {
			l.t.Errorf("thread %s, event %d: %s", l.thread, e.id, e.data)
		}
	}
	if got, want := text(log), strings.Join(l.want, ""); got != want {
		l.t.Errorf("thread %s: %v", l.thread, differ(got, want))
	}
	return len(log)
}

// differ returns an error that names the first difference of two texts.
func differ(got, want string) error {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	around := func(s string) string { return s[max(0, i-40):min(len(s), i+40)] }
	return fmt.Errorf("%d characters are kept of %d, the same up to %d: kept %q, sent %q", len(got), len(want), i, around(got), around(want))
}
