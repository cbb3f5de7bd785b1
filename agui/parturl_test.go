package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
)

// TestPartAddresses: an address of a part is http or https, or a path, in one spelling; any other part is a text when it is written.
func TestPartAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://x.example/a.png":                      "",
		"HTTPS://x.example/a?b=c&d=%20#e":              "https://x.example/a?b=c&d=%20#e",
		" http://x.example/a b(1)[2]\"'<>":             "http://x.example/a%20b%281%29%5B2%5D%22%27%3C%3E",
		"http://[::1]:80/a":                            "",
		"https://x.example/a) [b](c":                   "https://x.example/a%29%20%5Bb%5D%28c",
		"/api/threads/t/parts/0":                       "",
		"https://x.example/ü":                          "https://x.example/%C3%BC",
		"javascript:alert(1)":                          "-",
		"JaVaScRiPt:alert(1)":                          "-",
		" \tjavascript:alert(1)":                       "-",
		"java\tscript:alert(1)":                        "-",
		"java\nscript:alert(1)":                        "-",
		"\x01javascript:alert(1)":                      "-",
		"javascript://x.example/api/threads/t/parts/0": "-",
		"vbscript:x":                                   "-",
		"file:///etc/passwd":                           "-",
		"data:text/html,<script>alert(1)</script>":     "-",
		"DATA:image/svg+xml;utf8,<svg onload='x'/>":    "-",
		"data:image/png,x%":                            "-",
		"blob:https://x.example/1":                     "-",
		"gs://bucket/x":                                "-",
		"https://user@x.example/a":                     "-",
		"https://user:word@x.example/a":                "-",
		"https://x.example\\@y.example/a":              "-",
		"https://x.example/a\r\nSet-Cookie: a":         "-",
		"https:x.example":                              "-",
		"https:///a":                                   "-",
		"https://x.example:port/":                      "-",
		"//x.example/a":                                "-",
		"/\\x.example/a":                               "-",
		"///x.example/a":                               "-",
		"a.png":                                        "-",
		"":                                             "-",
	} {
		if want == "" {
			want = address
		}
		for form, part := range map[string]string{
			"1.0": `{"type":"image","source":{"type":"url","value":` + string(agui.AppendString(nil, address)) + `}}`,
			"0.x": `{"type":"binary","mimeType":"image/png","url":` + string(agui.AppendString(nil, address)) + `}`,
		} {
			if address == "" && form == "0.x" {
				continue // no binary part
			}
			var c agui.Content
			if err := json.Unmarshal([]byte("["+part+"]"), &c); err != nil {
				t.Fatalf("%q: %v", address, err)
			}
			p := &c.Parts[0]
			written := string(c.AppendJSON(nil))
			if p.Source.Type == agui.SourceData { // read as the bytes that it holds
				if strings.Contains(written, `"url"`) || want != "-" {
					t.Errorf("%s %q is written as %s", form, address, written)
				}
				continue
			}
			if want == "-" {
				if p.Followed() || strings.Contains(written, "source") {
					t.Errorf("%s %q is followed, and written as %s", form, address, written)
				}
				continue
			}
			if !p.Followed() || p.Source.Value != want {
				t.Errorf("%s %q is read as %q, want %q", form, address, p.Source.Value, want)
			}
			var again agui.Content
			if err := json.Unmarshal([]byte(written), &again); err != nil || again.Parts[0].Source.Value != want {
				t.Errorf("%s %q is read again as %s: %v", form, address, written, err)
			}
		}
	}
	for name, part := range map[string]string{
		"a handle":             `{"type":"image","source":{"type":"file","value":"JAVASCRIPT:alert(1)"}}`,
		"a part of later":      `{"type":"hologram","of":[{"link":"java\nscript:alert(1)"}]}`,
		"a data URL of a page": `{"type":"link","url":"data:text/html,x"}`,
	} {
		var c agui.Content
		if err := json.Unmarshal([]byte("["+part+"]"), &c); err != nil {
			t.Fatal(err)
		}
		if got := string(c.AppendJSON(nil)); c.Parts[0].Followed() || !strings.HasPrefix(got, `[{"type":"text"`) {
			t.Errorf("%s is written as %s", name, got)
		}
	}
	var c agui.Content
	if err := json.Unmarshal([]byte(`[{"type":"hologram","title":"note: x","at":"https://x.example"},{"type":"image","source":{"type":"data","value":"AA==","mimeType":"text/html,<script>"}}]`), &c); err != nil || !c.Parts[0].Followed() || c.Parts[1].Source.MimeType != "" {
		t.Errorf("%s %v", c.AppendJSON(nil), err)
	}
}
