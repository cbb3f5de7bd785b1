package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// fakeProxy is a proxy of the contract's whose agents speak at a model's pace. Its frames are
// counted, as those of our own proxy are.
type fakeProxy struct {
	conn *websocket.Conn
	mu   sync.Mutex // of writing
	seqs map[string]int64
}

// serveFakeProxy connects as a proxy and answers prompts until ctx ends.
func serveFakeProxy(ctx context.Context, base, token, id string) error {
	conn, _, err := websocket.DefaultDialer.DialContext(ctx, "ws"+strings.TrimPrefix(base, "http")+"/ws/agent",
		http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	d := &fakeProxy{conn: conn, seqs: make(map[string]int64)}
	d.send("", fmt.Sprintf(`{"type":"register_agent","agent":{"id":%q,"name":%q,"capabilities":{"seq":true,"epoch":"e"}}`, id, id))
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return nil //nolint:nilerr // the end of the bench
		}
		var f struct {
			Type     string
			RunID    string `json:"run_id"`
			PromptID string `json:"prompt_id"`
		}
		if json.Unmarshal(data, &f) != nil {
			continue
		}
		switch f.Type {
		case "acp_open":
			d.send(f.RunID, fmt.Sprintf(`{"type":"acp_opened","run_id":%q,"ok":true`, f.RunID))
		case "prompt_send":
			runs.Go(func() { d.speak(ctx, f.RunID, f.PromptID) })
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

func (d *fakeProxy) speak(ctx context.Context, run, prompt string) {
	tick := time.NewTicker(pacedEvery)
	defer tick.Stop()
	texts := deltaTexts()
	for i := range pacedDeltas {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		d.send(run, fmt.Sprintf(`{"type":"acp_update","run_id":%q,"prompt_id":%q,"session_id":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-%s","content":{"type":"text",%s}`,
			run, prompt, prompt, strings.TrimPrefix(texts[i%len(texts)], "{")))
	}
	d.send(run, fmt.Sprintf(`{"type":"prompt_result","run_id":%q,"prompt_id":%q,"ok":true,"session_id":"s","stop_reason":"end_turn"`, run, prompt))
}
