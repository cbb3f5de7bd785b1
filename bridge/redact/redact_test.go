package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const pemText = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun\nVTLw7onLRnrq0/IzW7yWR7QkrmBL7jTKEn5u+qKhbwKfBstIs+bMY2Zkp18gnTxK\n-----END RSA PRIVATE KEY-----"

// planted are secrets of every form: the text around it, and what must not be left of it.
var planted = map[string]struct{ text, secret string }{
	"openai":     {"use sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t now", "Ab3dEf6hIj9kLm2nOp5qRs8t"},
	"anthropic":  {"(sk-ant-api03-Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2)", "Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2"},
	"stripe":     {"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"},
	"github":     {"token ghp_16C7e42F292c6912E7710c838347Ae178B4a.", "16C7e42F292c6912E7710c838347Ae178B4a"},
	"fine":       {"github_pat_11ABCDEFG0aBcDeFgHiJkLmNoPq", "11ABCDEFG0aBcDeFgHiJkLmNoPq"},
	"gitlab":     {"glpat-Qx7Zz_9aB3cD5eF7gH1j", "Qx7Zz_9aB3cD5eF7gH1j"},
	"aws":        {"id=AKIAIOSFODNN7EXAMPLE;", "IOSFODNN7EXAMPLE"},
	"google":     {"AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"},
	"slack":      {"xoxb-2345678901-AbCdEfGhIjKl", "2345678901-AbCdEfGhIjKl"},
	"bearer":     {"curl -H 'Authorization: Bearer q7Jf93kdPz02mLxVbn' x", "q7Jf93kdPz02mLxVbn"},
	"basic":      {"Authorization: Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE"},
	"prose":      {"send bearer q7Jf93kdPz02mLxVbn with it", "q7Jf93kdPz02mLxVbn"},
	"jwt":        {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P end", "eyJzdWIiOiIxMjM0NTY3ODkwIn0"},
	"pem":        {"key:\n" + pemText + "\nend", "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun"},
	"cookie":     {"Cookie: sid=8f3kd92mfk; theme=dark", "8f3kd92mfk"},
	"set-cookie": {"Set-Cookie: session=Zk39dkf93kd0; Path=/; HttpOnly", "Zk39dkf93kd0"},
	"env":        {"export DB_PASSWORD=hunter2hunter2", "hunter2hunter2"},
	"header":     {"x-api-key: 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"},
	"dsn":        {"postgres://app:s3cr3tpw@db:5432/x", "s3cr3tpw"},
}

// TestS31Forms: secrets of every form are masked, in texts, in JSON at two depths, and in streams cut anywhere; what is
// masked is JSON still, and masking it again changes nothing.
func TestS31Forms(t *testing.T) {
	t.Parallel()
	f, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range planted {
		masked := f.Text(p.text)
		if strings.Contains(masked, p.secret) || !strings.Contains(masked, Mask) {
			t.Errorf("%s: %q", name, masked)
		}
		if again := f.Text(masked); again != masked {
			t.Errorf("%s: masked again it is %q, not %q", name, again, masked)
		}
		inner, _ := json.Marshal(map[string]string{"m": p.text})
		outer, _ := json.Marshal(map[string]any{"raw": string(inner), "obj": json.RawMessage(inner), "list": []string{"x\n" + p.text}})
		got := f.JSON(outer)
		if !json.Valid(got) || strings.Contains(string(got), p.secret) {
			t.Errorf("%s as JSON: %s", name, got)
		}
		var escaped strings.Builder
		for _, c := range p.text {
			fmt.Fprintf(&escaped, `\u%04x`, c)
		}
		var plain string
		if err := json.Unmarshal(f.JSON([]byte(`"`+escaped.String()+`"`)), &plain); err != nil || strings.Contains(plain, p.secret) {
			t.Errorf("%s escaped: %q %v", name, plain, err)
		}
		for cut := 1; cut < len(p.text); cut++ {
			var s Stream
			out := s.Push(f, "Some words before. ") + s.Push(f, p.text[:cut]) + s.Push(f, p.text[cut:]) + s.Push(f, " and after") + s.End(f)
			if want := "Some words before. " + masked + " and after"; out != want && strings.Contains(out, p.secret) {
				t.Errorf("%s cut at %d: %q", name, cut, out)
			}
			if !strings.HasPrefix(out, "Some words before. ") || !strings.HasSuffix(out, " and after") && name != "cookie" {
				t.Errorf("%s cut at %d lost text: %q", name, cut, out)
			}
		}
		var s Stream
		out := ""
		for i := range len(p.text) {
			out += s.Push(f, p.text[i:i+1])
		}
		if out += s.End(f); strings.Contains(out, p.secret) || !strings.Contains(out, Mask) {
			t.Errorf("%s byte by byte: %q", name, out)
		}
	}
}

// plain are texts that look alike and must pass as they are, and at once.
var plain = []string{
	"The task-based risk-assessment asks for a sk-learn pipeline.", "Bearer of bad news, and bearer authentication too.",
	"Cookie recipes: butter, sugar.", "see https://localhost:8080/path and http://[::1]:99/", "-----\nA rule\n-----",
	"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "Authorization: required", "PRIMARY_KEY: id", "eyJ is how a JWT begins.",
	"an id 018f2d5e-7c11-7a7b-9f5e-0123456789ab and a hash e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	`{"token":"word","max_tokens":4096,"path":"C:\\new\\task"}`, "我的钥匙 🔑 ключ",
}

// TestPlainPasses: text without secrets is the same string, whole and in pieces, and no piece waits but one behind a marker.
func TestPlainPasses(t *testing.T) {
	f, _ := New(nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, text := range plain {
		if got := f.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
		for range 200 {
			var s Stream
			out, rest := "", text
			for rest != "" {
				n := 1 + rnd.IntN(min(12, len(rest)))
				out += s.Push(f, rest[:n])
				rest = rest[n:]
			}
			if out += s.End(f); out != text {
				t.Fatalf("%q in pieces became %q", text, out)
			}
		}
	}
	var s Stream
	piece := "words that hold nothing at all "
	if n := testing.AllocsPerRun(100, func() { s.Push(f, piece) }); n > 0 {
		t.Errorf("%v allocations for a piece that holds nothing", n)
	}
	if got := s.Push(f, "half a wor"); got != "half a wor" || s.Holds() {
		t.Errorf("plain text is late: %q", got)
	}
}

// TestPatterns: configured patterns mask in texts, JSON and streams; those that would mask everything are refused.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"(", "x*", `\w+`} {
		if _, err := New([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	f, err := New([]string{`ACME-[0-9]{4}-[a-z]{6}`, `\b\d{4} ?\d{4} ?\d{4} ?\d{4}\b`, `codeword: \w+ \w+`})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"ACME-1234-abcdef", "4111111111111111", "codeword: green eagle"} {
		text := "so " + secret + ", yes"
		if got := f.Text(text); got != "so "+Mask+", yes" {
			t.Errorf("%q", got)
		}
		in, _ := json.Marshal(map[string]string{"a\n": text})
		if got := f.JSON(in); strings.Contains(string(got), secret) || !json.Valid(got) {
			t.Errorf("%s", got)
		}
		for cut := range len(text) {
			var s Stream
			out := s.Push(f, text[:cut]) + s.Push(f, text[cut:]) + s.End(f)
			if out != "so "+Mask+", yes" {
				t.Errorf("cut at %d: %q", cut, out)
			}
		}
	}
}

// TestHoldBackIsBounded: neither time nor memory grows with a text that is all markers, or with a body that never ends.
func TestHoldBackIsBounded(t *testing.T) {
	t.Parallel()
	f, _ := New(nil)
	for name, piece := range map[string]string{
		"markers": "sk-ghp_eyJ", "jwt": "eyJaaaa", "pem": "-----BEGIN RSA PRIVATE KEY-----A", "names": "API_KEY=", "urls": "://a:", "body": "aaaaaaaaaa", "dashes": "-----",
	} {
		var s Stream
		s.Push(f, "Bearer ")
		for range 2000 {
			s.Push(f, piece)
			if len(s.buf) > longestUndecided+4*longestName+len(piece) {
				t.Fatalf("%s: %d bytes are held", name, len(s.buf))
			}
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, p := range planted {
		f.Add(p.text, uint16(3))
	}
	for _, p := range plain {
		f.Add(p, uint16(5))
	}
	filter, _ := New(nil)
	f.Fuzz(func(t *testing.T, text string, seed uint16) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		var s Stream
		out, rest := "", text
		for rest != "" {
			n := 1 + rnd.IntN(min(40, len(rest)))
			out += s.Push(filter, rest[:n])
			rest = rest[n:]
		}
		out += s.End(filter)
		whole := filter.Text(text)
		if whole == text && out != text && !strings.Contains(out, Mask) {
			t.Fatalf("%q became %q", text, out)
		}
		if len(text) <= longestUndecided && out != whole {
			t.Fatalf("whole %q, in pieces %q", whole, out)
		}
		in, _ := json.Marshal(text)
		if got := filter.JSON(in); !json.Valid(got) {
			t.Fatalf("%s became %s", in, got)
		}
	})
}

// BenchmarkStream is a delta of a model's pace through the filter.
func BenchmarkStream(b *testing.B) {
	filter, _ := New(nil)
	var s Stream
	piece := " the quick brown fox jumps over the lazy dog"
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for range b.N {
		s.Push(filter, piece)
	}
}
