package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTail prints a run's events with their positions, and ends with it.
func TestTail(t *testing.T) {
	t.Parallel()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	_, said := r.post("/api/agui/chat", hello)
	out, err := program(t, env(), "tail", "R", "--url", r.URL, "--token-file", r.tokens)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(said), "\n\n") {
		id, data, _ := strings.Cut(block, "\ndata: ")
		fmt.Fprintf(&want, "%s\t%s\n", strings.TrimPrefix(id, "id: "), data)
	}
	if out != want.String() {
		t.Errorf("printed:\n%s\nsent:\n%s", out, want.String())
	}
	rest, err := program(t, env(), "tail", "R", "--after", "3", "--url", r.URL, "--token-file", r.tokens)
	if err != nil || !strings.HasPrefix(rest, "4\t") || !strings.HasSuffix(out, rest) {
		t.Errorf("after 3: %v %s", err, rest)
	}
	last := strings.Count(out, "\n")
	if rest, err := program(t, env(), "tail", "R", "--after", strconv.Itoa(last), "--url", r.URL, "--token-file", r.tokens); err != nil || rest != "" {
		t.Errorf("after the last: %v %s", err, rest)
	}
	for _, args := range [][]string{{"tail"}, {"tail", "R", "--thread", "T"}, {"tail", "none", "--url", r.URL, "--token-file", r.tokens}, {"tail", "R", "--after", "999", "--url", r.URL, "--token-file", r.tokens}} {
		if out, err := program(t, env(), args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// TestTailThread goes on until its context ends.
func TestTailThread(t *testing.T) {
	t.Parallel()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	r.post("/api/agui/chat", hello)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"tail", "--thread", "T", "--url", r.URL, "--token-file", r.tokens}, env(), output{writer, io.Discard})
	}()
	r.post("/api/agui/chat", strings.NewReplacer(`"R"`, `"R2"`, `"u1"`, `"u2"`).Replace(hello))
	ends := 0
	for buf := make([]byte, 64<<10); ends < 2; {
		n, err := reader.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		ends += bytes.Count(buf[:n], []byte("RUN_FINISHED"))
	}
	cancel()
	go io.Copy(io.Discard, reader)
	if err := <-done; err != nil {
		t.Error(err)
	}
	reader.Close()
}

// TestTailResumes: whatever the connection does, each event is printed once.
func TestTailResumes(t *testing.T) {
	t.Parallel()
	const events = 40
	frame := func(seq int) string {
		typ := "TEXT_MESSAGE_CONTENT"
		if seq == events {
			typ = "RUN_FINISHED"
		}
		return fmt.Sprintf("id: %d\ndata: {\"type\":%q,\"n\":%d}\n\n", seq, typ, seq)
	}
	served := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		after, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		switch served % 4 {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
			return
		case 2:
			return // 200 and nothing
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 10\n\n: alive\n\n", frame(after+1))
		next := frame(after + 2)
		// Cut at another place each time: in the id, in the data, between the line ends.
		fmt.Fprint(w, next[:1+served*7%(len(next)-1)])
		if after+2 >= events {
			fmt.Fprint(w, next[1+served*7%(len(next)-1):])
		}
		if served%8 < 4 {
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = nil
	defer srv.Close()
	var out bytes.Buffer
	tail := newTailer(srv.URL, "", 0, true, &out)
	tail.pause = time.Microsecond
	if err := tail.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for seq := 1; seq <= events; seq++ {
		fmt.Fprintf(&want, "%d\t%s\n", seq, strings.TrimSpace(strings.SplitN(frame(seq), "data: ", 2)[1]))
	}
	if out.String() != want.String() {
		t.Errorf("printed:\n%s", out.String())
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestTailStops when the reader of its output is gone.
func TestTailStops(t *testing.T) {
	t.Parallel()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	r.post("/api/agui/chat", hello)
	reader, writer := io.Pipe()
	reader.Close()
	if err := run(t.Context(), []string{"tail", "R", "--url", r.URL, "--token-file", r.tokens}, env(), output{writer, io.Discard}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}
