package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge/httpagent"
)

// TestDataURLsAreOnePicture: a picture that a client sends in any spelling is the same picture: it is kept once in the thread,
// is there after a reload, and reaches every agent as plain base64 with its type.
func TestDataURLsAreOnePicture(t *testing.T) {
	t.Parallel()
	data := append([]byte("\x89PNG\r\n\x1a\n"), picture(7, 100<<10)...)
	plain := base64.StdEncoding.EncodeToString(data)
	lines := ""
	for chunk := range slices.Chunk([]byte(plain), 76) {
		lines += string(chunk) + "\r\n"
	}
	source := func(kind, value, mimeType string) string {
		raw, _ := json.Marshal(map[string]string{"type": kind, "value": value, "mimeType": mimeType})
		return `{"type":"image","source":` + string(raw) + `}`
	}
	binary := func(member, value, mimeType string) string {
		raw, _ := json.Marshal(map[string]string{"type": "binary", member: value, "mimeType": mimeType})
		return string(raw)
	}
	spellings := map[string]string{
		"data":                         source("data", plain, "image/png"),
		"data with a URL in it":        source("data", "data:image/png;base64,"+plain, "image/png"),
		"data with a URL, no type":     source("data", "data:image/png;base64,"+plain, ""),
		"data without a type":          source("data", plain, ""),
		"data of an unknown type":      source("data", plain, "application/octet-stream"),
		"data in the alphabet of URLs": source("data", base64.URLEncoding.EncodeToString(data), "image/png"),
		"data without padding":         source("data", base64.RawURLEncoding.EncodeToString(data), "image/png"),
		"data in lines":                source("data", lines, "image/png"),
		"a URL":                        source("url", "data:image/png;base64,"+plain, "image/png"),
		"a URL alone":                  source("url", "data:image/png;base64,"+plain, ""),
		"a URL without a type":         source("url", "data:;base64,"+plain, ""),
		"a URL in capitals":            source("url", "DATA:IMAGE/PNG;BASE64,"+plain, ""),
		"a URL with a charset":         source("url", "data:image/png;charset=utf-8;base64,"+plain, "image/png; charset=binary"),
		"a URL with a name":            source("url", "data:image/png;name=a.png;base64,"+plain, ""),
		"a URL with percent signs":     source("url", "data:image/png;base64,"+url.QueryEscape(plain), ""),
		"a URL of bytes":               source("url", "data:image/png,"+url.PathEscape(string(data)), ""),
		"a URL in lines":               source("url", "data:image/png;base64,"+lines, ""),
		"a URL within a URL":           source("url", "data:;base64,data:image/png;base64,"+plain, ""),
		"white space around a URL":     source("url", " \n\tdata:image/png;base64,"+plain+"\n", ""),
		"binary":                       binary("data", plain, "image/png"),
		"binary with a URL":            binary("url", "data:image/png;base64,"+plain, "image/png"),
		"binary with a URL as data":    binary("data", "data:image/png;base64,"+plain, "image/png"),
		"binary without a type":        binary("data", plain, ""),
	}
	for _, r := range roads() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			h, peer := r.at(t, plan{}, func(int, []byte) string {
				if r.protocol == httpagent.ProtocolAGUI {
					return aguiStream()
				}
				return invokeStream()
			})
			n, sums := 0, make(map[string]bool)
			for name, part := range spellings {
				n++
				body := fmt.Sprintf(`{"threadId":"T","runId":"R%d","protocolVersion":"1.0","messages":[{"id":"u%d","role":"user","content":[{"type":"text","text":%q},%s]}]}`, n, n, name, part)
				if a := h.do("POST", "/api/agui/chat", body); a.status != 200 {
					t.Fatalf("%s: %d %s", name, a.status, a.body)
				}
				sent := string(peer.body(n))
				if want := `"mimeType":"image/png"`; r.form != httpagent.MessagesOpenAI && (!strings.Contains(sent, `"value":"`+plain+`"`) || strings.Count(sent, want) < n) {
					t.Errorf("%s: the agent has another picture: …%.200s", name, sent[strings.Index(sent, name):])
				}
				if r.form == httpagent.MessagesOpenAI && strings.Count(sent, `"url":"data:image/png;base64,`+plain+`"`) < n {
					t.Errorf("%s: the agent has another picture: …%.200s", name, sent[strings.Index(sent, name):])
				}
			}
			messages, _ := h.snapshotOf("T")
			for _, m := range messages {
				if m.Role != agui.RoleUser {
					continue
				}
				part := m.Content.Parts[1]
				if part.Type != agui.PartImage || part.Source.MimeType != "image/png" {
					t.Errorf("%s: after a reload it is %s of %+v", m.Content, part.Type, part.Source.MimeType)
				}
				sums[part.Source.Value[strings.LastIndexByte(part.Source.Value, '/')+1:]] = true
				if got := h.do("GET", part.Source.Value, ""); got.body != string(data) || got.header.Get("Content-Type") != "image/png" {
					t.Errorf("%s: after a reload there are %d bytes of %s", m.Content, len(got.body), got.header.Get("Content-Type"))
				}
			}
			if len(sums) != 1 {
				t.Errorf("it is kept %d times", len(sums))
			}
		})
	}
}
