package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// fakeProxy is a proxy of the contract's in this process, whose agents say when they speak: its
// clock is the clients' clock. It counts its frames, as our own proxy does.
type fakeProxy struct {
	conn *websocket.Conn
	born time.Time
	mu   sync.Mutex // of writing
	seqs map[string]int64
}

// link registers a fakeProxy; it serves until the test ends.
func (y *acpEnv) link() *fakeProxy {
	y.t.Helper()
	token, err := os.ReadFile(filepath.Join(y.dir, "token"))
	if err != nil {
		y.t.Fatal(err)
	}
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(y.url, "http")+"/ws/agent",
		http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}})
	if err != nil {
		y.t.Fatal(err)
	}
	d := &fakeProxy{conn: conn, born: time.Now(), seqs: make(map[string]int64)}
	d.send("", fmt.Sprintf(`{"type":"register_agent","agent":{"id":%q,"name":"double","capabilities":{"seq":true,"epoch":"e"}}`, proxyID))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.serve(ctx)
	}()
	y.t.Cleanup(func() {
		cancel()
		_ = conn.Close()
		<-ended
	})
	return d
}

func (d *fakeProxy) serve(ctx context.Context) {
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		_, data, err := d.conn.ReadMessage()
		if err != nil {
			return
		}
		var f struct {
			Type     string
			RunID    string `json:"run_id"`
			PromptID string `json:"prompt_id"`
			Prompt   []struct{ Text string }
		}
		if json.Unmarshal(data, &f) != nil {
			continue
		}
		switch f.Type {
		case "acp_open":
			d.send(f.RunID, fmt.Sprintf(`{"type":"acp_opened","run_id":%q,"ok":true`, f.RunID))
		case "prompt_send":
			runs.Go(func() { d.speak(ctx, f.RunID, f.PromptID, f.Prompt[len(f.Prompt)-1].Text) })
		}
	}
}

// send writes a frame, whose closing brace is left to it.
func (d *fakeProxy) send(run, open string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if run != "" {
		d.seqs[run]++
		open += fmt.Sprintf(`,"seq":%d`, d.seqs[run])
	}
	_ = d.conn.WriteMessage(websocket.TextMessage, []byte(open+"}")) // a broken link is seen by the reader
}

// floodTick is the pause between two bursts of an agent that sends more than once in it.
const floodTick = 5 * time.Millisecond

// speak does a prompt, "rate span": it sends so many updates a second, each with the time.
func (d *fakeProxy) speak(ctx context.Context, run, prompt, words string) {
	var rate int
	var text string
	if _, err := fmt.Sscan(words, &rate, &text); err != nil {
		rate = 1
	}
	span, _ := time.ParseDuration(text)
	every := max(floodTick, time.Second/time.Duration(rate))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for begin, said, all := time.Now(), 0, int(span.Seconds()*float64(rate)); said < all; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for due := min(all, int(time.Since(begin).Seconds()*float64(rate))); said < due; said++ {
			d.send(run, fmt.Sprintf(`{"type":"acp_update","run_id":%q,"prompt_id":%q,"session_id":"s","update":{"sessionUpdate":"agent_message_chunk",`+
				`"messageId":"m-%s","content":{"type":"text","text":"%d "}}`, run, prompt, prompt, time.Since(d.born).Nanoseconds()))
		}
	}
	d.send(run, fmt.Sprintf(`{"type":"prompt_result","run_id":%q,"prompt_id":%q,"ok":true,"session_id":"s","stop_reason":"end_turn"`, run, prompt))
}
