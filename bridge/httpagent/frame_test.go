package httpagent

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/r3labs/sse/v2"
)

// readAll reads a stream whole and returns each frame as "event|data".
func readAll(r io.Reader, limit int) ([]string, error) {
	reader := newFrameReader(r, limit)
	var got []string
	for {
		frames, err := reader.next()
		for _, f := range frames {
			got = append(got, f.event+"|"+string(f.data))
		}
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

func TestFramesByTheLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"one":                      {"event: delta\ndata: {}\n\n", []string{"delta|{}"}},
		"no space after the colon": {"event:delta\ndata:x\n\n", []string{"delta|x"}},
		"only one space is taken":  {"data:  x\n\n", []string{"| x"}},
		"several data lines join":  {"data: a\ndata: b\ndata:\n\n", []string{"|a\nb\n"}},
		"comments are nothing":     {": ping\n\ndata: x\n: in between\n\n", []string{"|x"}},
		"CRLF":                     {"event: e\r\ndata: x\r\n\r\ndata: y\r\n\r\n", []string{"e|x", "|y"}},
		"CR alone":                 {"event: e\rdata: x\r\rdata: y\r\r", []string{"e|x", "|y"}},
		"byte order mark":          {"\xEF\xBB\xBFdata: x\n\n", []string{"|x"}},
		"event without data":       {"event: e\n\ndata: x\n\n", []string{"|x"}},
		"cut off before the end":   {"data: x\n\ndata: y\n", []string{"|x"}},
		"unknown fields":           {"id: 7\nretry: 10\nfoo: bar\ndata: x\n\n", []string{"|x"}},
		"field without colon":      {"data\n\n", []string{"|"}},
		"many in one read":         {"data: 1\n\ndata: 2\n\ndata: 3\n\n", []string{"|1", "|2", "|3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, r := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "a byte a time": iotest.OneByteReader(strings.NewReader(c.in)),
				"by halves": iotest.HalfReader(strings.NewReader(c.in)),
			} {
				got, err := readAll(r, 1<<20)
				if err != nil || strings.Join(got, "\x1e") != strings.Join(c.want, "\x1e") {
					t.Errorf("%s: got %q, %v; want %q", kind, got, err, c.want)
				}
			}
		})
	}
}

func TestAFramePastTheLimitIsRefusedAndMemoryBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	endless := io.MultiReader(strings.NewReader("data: "), repeat('x'))
	reader := newFrameReader(endless, limit)
	_, err := reader.next()
	if !errors.Is(err, errFrameTooLarge) || len(reader.buf) > 4*limit {
		t.Fatalf("%v with %d bytes held", err, len(reader.buf))
	}
	many := io.MultiReader(repeatText("data: " + strings.Repeat("y", 1000) + "\n"))
	reader = newFrameReader(many, limit)
	if _, err := reader.next(); !errors.Is(err, errFrameTooLarge) {
		t.Fatalf("a frame of endless lines: %v", err)
	}
}

// repeat is an endless stream of one byte.
func repeat(b byte) io.Reader { return repeatText(string(b)) }

type endlessReader struct{ text []byte }

func repeatText(s string) io.Reader { return &endlessReader{bytes.Repeat([]byte(s), 1+4096/len(s))} }

func (r *endlessReader) Read(p []byte) (int, error) { return copy(p, r.text), nil }

// FuzzFrames compares the reader with an independent one, r3labs/sse, on what both
// understand alike: LF or CRLF lines and events that were not cut off.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("event: delta\ndata: {\"text\":\"x\"}\n\n"))
	f.Add([]byte(": c\n\ndata: a\ndata: b\n\nevent: done\ndata: {}\n\n"))
	f.Add([]byte("data: x\r\n\r\ndata:y\r\n\r\n"))
	f.Add([]byte("\xEF\xBB\xBFdata: x\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err1 := readAll(bytes.NewReader(in), 1<<20)
		bytewise, err2 := readAll(iotest.OneByteReader(bytes.NewReader(in)), 1<<20)
		if err1 != nil || err2 != nil || strings.Join(whole, "\x1e") != strings.Join(bytewise, "\x1e") {
			t.Fatalf("%q by read size: %q %v, %q %v", in, whole, err1, bytewise, err2)
		}
		if oracle, ok := byR3labs(in); ok && strings.Join(whole, "\x1e") != strings.Join(oracle, "\x1e") {
			t.Fatalf("%q: got %q, r3labs has %q", in, whole, oracle)
		}
	})
}

// byR3labs splits events with r3labs' reader and takes each apart by lines. It declines
// input the two treat differently by design: a lone CR (r3labs does not end lines with
// it), a byte order mark, NUL, and a cut-off last event (r3labs gives it).
func byR3labs(in []byte) ([]string, bool) {
	if bytes.IndexByte(in, 0) >= 0 || bytes.HasPrefix(in, []byte("\xEF")) || len(in) > 1000 {
		return nil, false
	}
	text := strings.ReplaceAll(string(in), "\r\n", "\n")
	if strings.Contains(text, "\r") || !strings.HasSuffix(text, "\n\n") || strings.HasPrefix(text, "\n") || strings.Contains(text, "\n\n\n") {
		return nil, false
	}
	var got []string
	reader := sse.NewEventStreamReader(strings.NewReader(text), 1<<20)
	for {
		block, err := reader.ReadEvent()
		if err != nil {
			return got, true
		}
		if event, ok := parseBlock(string(block)); ok {
			got = append(got, event)
		}
	}
}

func parseBlock(block string) (string, bool) {
	var event string
	var data []string
	for line := range strings.SplitSeq(block, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			event = value
		case "data":
			data = append(data, value)
		}
	}
	return event + "|" + strings.Join(data, "\n"), data != nil
}
