package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"aqueduct/agui"
)

// TestAgentEchoesWhatItIsSent: an agent that sends back all pictures that it was sent, in each event that has room for
// them, loses neither its answer nor the pictures of the thread.
func TestAgentEchoesWhatItIsSent(t *testing.T) {
	t.Parallel()
	h, peer := roads()[0].at(t, plan{}, func(n int, body []byte) string {
		var in struct{ Messages json.RawMessage }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		said := fmt.Sprintf(`{"id":"a%d","role":"assistant","content":"answer %d"}`, n, n)
		begun := `data: {"type":"RUN_STARTED","threadId":"t","runId":"r","input":` + string(body) + "}\n\n"
		return begun + strings.Replace(aguiStream(
			`{"type":"RAW","event":{"messages":`+string(in.Messages)+`}}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"seen":`+fmt.Sprint(n)+`}}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"a`+fmt.Sprint(n)+`","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a`+fmt.Sprint(n)+`","delta":"answer `+fmt.Sprint(n)+`","rawEvent":{"messages":`+string(in.Messages)+`}}`,
			`{"type":"TEXT_MESSAGE_END","messageId":"a`+fmt.Sprint(n)+`"}`,
			`{"type":"MESSAGES_SNAPSHOT","messages":`+strings.TrimSuffix(string(in.Messages), "]")+`,`+said+`]}`,
		), `data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}`+"\n\n", "", 1)
	})
	for n := 1; n <= 4; n++ {
		c := &talk{h: h, thread: "T", runs: n} // sends only what is new
		got := c.send(pictureMessage(fmt.Sprint("u", n), picture(n, 2<<20)))
		if end := got[len(got)-1]; !strings.Contains(end.data, "RUN_FINISHED") {
			t.Fatalf("after %d pictures the run ends with %.300s", n, end.data)
		}
	}
	if size := len(peer.body(4)); size < 9<<20 {
		t.Fatalf("the agent is sent %d bytes, which fit into a frame", size)
	}
	messages, _ := h.snapshotOf("T")
	var texts []string
	for _, m := range messages {
		switch m.Role {
		case agui.RoleAssistant:
			texts = append(texts, m.Content.String())
		case agui.RoleUser:
			if a := h.do("GET", m.Content.Parts[1].Source.Value, ""); len(a.body) != 2<<20 {
				t.Errorf("a picture has %d bytes", len(a.body))
			}
		}
	}
	if got := strings.Join(texts, ", "); got != "answer 1, answer 2, answer 3, answer 4" {
		t.Errorf("the thread has %q", got)
	}
}

// TestEchoTakesNoMemory: what the pictures are that an agent sends back costs time and no memory: 40 MiB of them take no
// more than 10 MiB.
func TestEchoTakesNoMemory(t *testing.T) {
	const one = 2 << 20
	value := strings.Repeat("iVBORw0KGgo/+A==", one/16)
	count := 0
	peer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		echo := func(begin, end string) {
			_, _ = io.WriteString(w, "data: "+begin)
			for i := range count {
				_, _ = fmt.Fprintf(w, `{"id":"u%d","role":"user","content":[{"type":"image","source":{"type":"data","mimeType":"image/png","value":"`, i)
				_, _ = io.WriteString(w, value)
				_, _ = io.WriteString(w, `"}}]},`)
			}
			_, _ = io.WriteString(w, `{"id":"a","role":"assistant","content":"seen"}]`+end+"\n\n")
		}
		echo(`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[`, `}}`)
		echo(`{"type":"RAW","event":{"messages":[`, `}}`)
		echo(`{"type":"MESSAGES_SNAPSHOT","messages":[`, `}`)
		_, _ = io.WriteString(w, `data: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}`+"\n\n")
	})
	h := newEnvWith(t, saysN(1), plan{})
	roads()[0].join(h, peer)
	took := func(run string, pictures int) uint64 {
		count = pictures
		return memoryPeak(func() {
			if got := h.chat("T-"+run, run, "hi"); !strings.Contains(types(got), "TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED") {
				t.Errorf("%d pictures: %s", pictures, types(got))
			}
		})
	}
	took("warm", 5)
	few, many := took("few", 5), took("many", 20)
	t.Logf("%d KiB for 10 MiB of pictures, %d KiB for 40 MiB", few>>10, many>>10)
	if many > few+8<<20 {
		t.Errorf("%d bytes for 10 MiB of pictures, %d for 40 MiB", few, many)
	}
}
