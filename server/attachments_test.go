package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/redact"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// uploaded is an answer to an upload.
type uploaded struct {
	ID, URL, Type, MimeType, Filename, SHA256 string
	Size                                      int64
	ExpiresAt                                 time.Time
}

// uploads sends a file.
func (h *env) uploads(data []byte, kind string, header ...string) (u uploaded) {
	h.t.Helper()
	a := h.do("POST", "/api/attachments?filename=a%2Fb.bin", string(data), bytesOf(kind, header...)...)
	if err := json.Unmarshal([]byte(a.body), &u); err != nil || a.status != http.StatusCreated {
		h.t.Fatal(a.status, a.body)
	}
	return u
}

// withPart is a chat of one message that names a file.
func withPart(thread, run, part string) string {
	return fmt.Sprintf(`{"threadId":%q,"runId":%[2]q,"protocolVersion":"1.0","state":{},"messages":[{"id":"u-%[2]s","role":"user","content":[{"type":"text","text":"see"},%[3]s]}]}`, thread, run, part)
}

// partsOf are the parts of the newest message that an agent is called with, but for the text.
func partsOf(call bridge.Call) []agui.ContentPart {
	return call.Messages[len(call.Messages)-1].Content.Parts[1:]
}

// at is the path of a URL of the server at that address.
func at(t testing.TB, address, url string) string {
	t.Helper()
	path, ok := strings.CutPrefix(url, address)
	if !ok || !strings.HasPrefix(path, "/") {
		t.Errorf("%s is not at %s", url, address)
	}
	return path
}

// TestAttachments: a file is uploaded, and named by a message; its agent gets a small one with the call and reads a large one by its
// token; pages get the thread's URL for it; it goes with the thread. In all three forms of chats, on both databases.
func TestAttachments(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, files := onDisk(t)
		a := newAtWork(t, plan{open: db.open, blobs: blobs, public: "https://chat.example", agentURL: "http://agents.example/"})
		h := a.h
		large, middle, small := picture(1, 5<<20), picture(2, 200<<10), []byte("a few words")
		video, image, text := h.uploads(large, "video/mp4"), h.uploads(middle, "image/png"), h.uploads(small, "application/octet-stream")
		if video.Type != "video" || video.Filename != "b.bin" || video.Size != 5<<20 || video.ExpiresAt.IsZero() || text.MimeType != "text/plain; charset=utf-8" || text.Type != "document" {
			t.Errorf("%+v %+v", video, text)
		}
		if got := h.do("GET", at(t, "https://chat.example", video.URL), ""); got.body != string(large) || got.header.Get("Content-Disposition") != "attachment" {
			t.Errorf("before it is sent: %d, %d bytes", got.status, len(got.body))
		}
		prompted := func(body string) (bridge.Call, func()) {
			t.Helper()
			answer := h.open(h.request("POST", "/api/agui/chat", body))
			return <-a.calls, func() {
				a.end <- struct{}{}
				answer.rest()
			}
		}
		n := 0
		for form, c := range map[string]struct {
			body func(u uploaded) string
		}{
			"AG-UI 1.0": {func(u uploaded) string {
				return withPart("T1", fmt.Sprint("R", n), fmt.Sprintf(`{"type":%q,"source":{"type":"url","value":%q}}`, u.Type, u.URL))
			}},
			"by id": {func(u uploaded) string {
				return withPart("T1", fmt.Sprint("R", n), fmt.Sprintf(`{"type":%q,"source":{"type":"file","value":%q}}`, u.Type, u.ID))
			}},
			"AG-UI 0.x": {func(u uploaded) string {
				return strings.Replace(withPart("T1", fmt.Sprint("R", n), fmt.Sprintf(`{"type":"binary","id":%q,"mimeType":%q}`, u.ID, u.MimeType)), `"protocolVersion":"1.0",`, "", 1)
			}},
			"TDesign": {func(u uploaded) string {
				return fmt.Sprintf(`{"threadId":"T1","prompt":"see","regenerate":false,"attachments":[{"fileType":%q,"name":"b.bin","url":%q}]}`, u.Type, u.URL)
			}},
		} {
			for _, u := range []struct {
				uploaded
				data []byte
			}{{video, large}, {image, middle}, {text, small}} {
				n++
				call, over := prompted(c.body(u.uploaded))
				part := partsOf(call)[0]
				switch data, inline := part.Data(); {
				case len(u.data) <= 4<<20:
					if !inline || !bytes.Equal(data, u.data) {
						t.Errorf("%s: the agent gets %d of %d bytes: %+v", form, len(data), len(u.data), part.Source.Type)
					}
				case inline:
					t.Errorf("%s: %d bytes are in the call", form, len(data))
				default:
					path := at(t, "http://agents.example", part.Source.Value)
					if got := h.do("GET", path, "", bearerOf(call.RunToken)...); got.body != string(u.data) || got.header.Get("X-Content-Type-Options") != "nosniff" {
						t.Errorf("%s: the agent reads %d %.99s", form, got.status, got.body)
					}
					if got := h.do("GET", path, "", append(bearerOf(call.RunToken), "Range", "bytes=5-9")...); got.status != 206 || got.body != string(u.data[5:10]) {
						t.Errorf("%s: a range: %d", form, got.status)
					}
				}
				if part.Source.MimeType != u.MimeType || part.Type != u.Type {
					t.Errorf("%s: %s %s, want %s %s", form, part.Type, part.Source.MimeType, u.Type, u.MimeType)
				}
				over()
			}
		}
		messages, _ := h.snapshotOf("T1")
		if got := h.do("GET", at(t, "https://chat.example", messages[0].Content.Parts[1].Source.Value), ""); got.status != 200 || got.header.Get("Content-Disposition") == "" {
			t.Errorf("the history: %d", got.status)
		}
		h.settles(files, 4) // two of the uploads, and two of the thread, which has each once
		if got := h.do("DELETE", "/api/threads/T1", ""); got.status != 204 {
			t.Fatal(got.status, got.body)
		}
		h.settles(files, 2)
	})
}

// TestAttachmentElsewhere: a part of one thread is one of another too when a message there names it, and stays when the first thread is
// deleted; one of another user's is not there.
func TestAttachmentElsewhere(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	blobs, files := onDisk(t)
	a := newAtWork(t, plan{blobs: blobs, auth: static(t).WithKeys(keys)})
	h := a.h
	person := func(user string) []string {
		return bearerOf(issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: []string{auth.RoleUser}}}, time.Hour))
	}
	ann, bob := person("ann"), person("bob")
	data := picture(1, 300<<10)
	u := h.uploads(data, "image/png", ann...)
	named := func(value string) string {
		return fmt.Sprintf(`{"type":"image","source":{"type":"url","value":%q}}`, value)
	}
	send := func(thread, run, part string, who []string) *agui.Source {
		t.Helper()
		answer := h.open(h.request("POST", "/api/agui/chat", withPart(thread, run, part), who...))
		call := <-a.calls
		a.end <- struct{}{}
		answer.rest()
		return partsOf(call)[0].Source
	}
	if got := send("T1", "R1", named(u.URL), ann); got.Type != agui.SourceData {
		t.Errorf("%+v", got.Type)
	}
	first, err := h.store.SessionByExternalID(t.Context(), store.As(store.Principal{Tenant: "acme", User: "ann"}), "T1")
	if err != nil {
		t.Fatal(err)
	}
	url := "/api/threads/" + first.ID + "/parts/" + u.SHA256
	if got := send("T2", "R2", named(url), ann); got.Type != agui.SourceData {
		t.Errorf("in another thread: %+v", got)
	}
	if a := h.do("DELETE", "/api/threads/T1", "", ann...); a.status != 204 {
		t.Fatal(a.status)
	}
	h.settles(files, 2) // the upload, and the second thread's
	if a := h.do("GET", "/api/threads/T2/parts/"+u.SHA256, "", ann...); a.body != string(data) {
		t.Errorf("%d %d bytes", a.status, len(a.body))
	}
	for name, path := range map[string]string{"the upload": u.URL, "the part": "/api/threads/T2/parts/" + u.SHA256} {
		if a := h.do("GET", path, "", bob...); a.status != 404 {
			t.Errorf("%s as another user: %d", name, a.status)
		}
	}
	if a := h.do("POST", "/api/agui/chat", withPart("T3", "R3", named(u.URL)), bob...); a.status != 422 || !strings.Contains(a.body, "attachment_unknown") {
		t.Errorf("another user sends it: %d %s", a.status, a.body)
	}
	// A handle of a provider's is none of ours, whatever it looks like.
	if got := send("T4", "R4", fmt.Sprintf(`{"type":"image","source":{"type":"file","value":%q}}`, u.ID), bob); got.Type != agui.SourceFile || got.Value != u.ID {
		t.Errorf("%+v", got)
	}
	if a := h.do("POST", "/api/agui/chat", withPart("T5", "R5", strings.Repeat(named("/v1/context/00000000-0000-7000-8000-000000000000")+",", 17)+named(u.URL)), ann...); a.status != 422 {
		t.Errorf("too many: %d %s", a.status, a.body)
	}
	h.settles(files, 2)
}

// TestUploads: forms are read, types found out, and nothing is taken that is none.
func TestUploads(t *testing.T) {
	t.Parallel()
	blobs, files := onDisk(t)
	h := newEnvWith(t, saysN(1), plan{blobs: blobs})
	form := func(name, kind string, data []byte) (body string, header []string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("uid", "1") // into memory
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, name)}, "Content-Type": {kind}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Write(data)
		_ = w.Close()
		return b.String(), bytesOf(w.FormDataContentType(), "Origin", h.URL)
	}
	body, header := form("../../etc/plan\n.txt", "text/plain", []byte("words"))
	a := h.do("POST", "/api/attachments", body, header...)
	var u uploaded
	if err := json.Unmarshal([]byte(a.body), &u); err != nil || a.status != 201 || strings.ContainsAny(u.Filename, "/\n") || u.Size != 5 {
		t.Errorf("%d %s", a.status, a.body)
	}
	page := []byte("<html><script>alert(1)</script>")
	png, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data       []byte
		kind, want string
	}{
		"as it is": {png, "image/png", "image/png"}, "unknown": {png, "application/octet-stream", "image/png"}, "no type": {png, "", "image/png"},
		"a page": {page, "text/html", "text/html"}, "a page as a picture": {page, "image/png", "application/octet-stream"},
		"a page as nothing": {page, "", "text/html; charset=utf-8"}, "a document": {[]byte("%PDF-1.7"), "application/pdf", "application/pdf"},
	} {
		if u := h.uploads(c.data, c.kind, "Origin", h.URL); u.MimeType != c.want {
			t.Errorf("%s: %s, want %s", name, u.MimeType, c.want)
		}
	}
	most := strings.Repeat("\xff", 16<<20)
	tooLarge, formHeader := form("a", "image/png", []byte(most+"!"))
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   string
	}{
		"a form of a stranger": {"x", bytesOf("text/plain"), 415, "unsupported_media_type"},
		"a foreign origin":     {"x", bytesOf("image/png", "Origin", "https://evil.example"), 403, "forbidden_origin"},
		"nothing":              {"", bytesOf("image/png"), 400, "invalid_body"},
		"no file":              {"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n", bytesOf("multipart/form-data; boundary=b", "Origin", h.URL), 400, "invalid_body"},
		"no form":              {"x", bytesOf("multipart/form-data; boundary=b", "Origin", h.URL), 400, "invalid_body"},
		"a message":            {"x", bytesOf("message/rfc822"), 415, "unsupported_media_type"},
		"too large":            {most + "!", bytesOf("image/png"), 413, "body_too_large"},
		"too large a form":     {tooLarge, formHeader, 413, "body_too_large"},
	} {
		if a := h.do("POST", "/api/attachments", c.body, c.header...); a.status != c.status || !strings.Contains(a.body, c.code) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	h.settles(files, 0) // all were small, or refused
}

// TestAttachmentSecrets: a secret in a file is at rest nowhere; the agent gets it, readers of the thread do not.
func TestAttachmentSecrets(t *testing.T) {
	t.Parallel()
	filter, err := redact.New([]string{`ACME-\d{4}-[a-z]+`})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := redact.NewVault(redact.NewKeyLine())
	if err != nil {
		t.Fatal(err)
	}
	const word = "ACME-1234-quetzal"
	for name, text := range map[string]string{"small": word, "large": strings.Repeat("x ", 60<<10) + word, "very large": strings.Repeat("x ", 3<<20) + word} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobs, _ := onDisk(t)
			a := newAtWork(t, plan{blobs: blobs, secrets: redact.Hasher{Filter: filter, Vault: vault}})
			h := a.h
			u := h.uploads([]byte(text), "text/csv")
			answer := h.open(h.request("POST", "/api/agui/chat", withPart("T", "R", fmt.Sprintf(`{"type":"document","source":{"type":"url","value":%q}}`, u.URL))))
			call := <-a.calls
			source := partsOf(call)[0].Source
			got, _ := (&agui.ContentPart{Source: source}).Data()
			if source.Type == agui.SourceURL {
				got = []byte(h.do("GET", source.Value, "", bearerOf(call.RunToken)...).body)
			}
			if string(got) != text {
				t.Errorf("the agent gets %d bytes: %.80s", len(got), got)
			}
			a.end <- struct{}{}
			answer.rest()
			messages, _ := h.snapshotOf("T")
			shown := messages[0].Content.Parts[1].Source
			seen, _ := (&agui.ContentPart{Source: shown}).Data()
			if shown.Type == agui.SourceURL {
				seen = []byte(h.do("GET", shown.Value, "").body)
			}
			if strings.Contains(string(seen), word) || len(seen) == 0 {
				t.Errorf("a page gets %d bytes with it", len(seen))
			}
		})
	}
}
