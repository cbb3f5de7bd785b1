package bench

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// deltasPerRun is how many deltas the stub sends for one prompt.
const deltasPerRun = 200

// deltaTexts have what makes encoding work: quotes, line breaks, markup, wide characters.
func deltaTexts() []string {
	return []string{
		`{"text":"the quick \"brown\" fox jumps over "}`,
		`{"text":"a line\nand another one of text "}`,
		`{"text":"一个普通的句子，用来测试编码 "}`,
		`{"text":"if a <b> && c > d { return x } // "}`,
		`{"text":"plain words that need no escaping "}`,
	}
}

// serveStub is the upstream: it answers every POST with one write a delta, as fast as the
// connection takes them, and reads as little HTTP as it can get away with.
func serveStub(l net.Listener) error {
	frames := make([][]byte, 0, deltasPerRun+1)
	texts := deltaTexts()
	for i := range deltasPerRun {
		frames = append(frames, chunk("event: delta\ndata: "+texts[i%len(texts)]+"\n\n"))
	}
	frames = append(frames, chunk("event: done\ndata: {\"usage\":{\"total_tokens\":200}}\n\n"), []byte("0\r\n\r\n"))
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go stubConn(conn, frames)
	}
}

func chunk(s string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(s), s) }

func stubConn(conn net.Conn, frames [][]byte) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := in.Discard(int(max(0, req.ContentLength))); err != nil {
			return
		}
		if strings.HasSuffix(req.URL.Path, "/health") {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			continue
		}
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, f := range frames {
			if _, err := conn.Write(f); err != nil {
				return
			}
		}
	}
}
