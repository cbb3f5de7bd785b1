package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"aqueduct/test/program"
)

// The paced load: what 200 chats at a model's pace cost.
const (
	pacedSessions = 200
	pacedEvery    = 20 * time.Millisecond
	pacedDeltas   = 400 // a run
)

// servePaced is an HTTP agent that speaks at a model's pace.
func servePaced(l net.Listener) error {
	texts := deltaTexts()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/health") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := w.(http.Flusher)
		tick := time.NewTicker(pacedEvery)
		defer tick.Stop()
		for i := range pacedDeltas {
			<-tick.C
			fmt.Fprintf(w, "event: delta\ndata: %s\n\n", texts[i%len(texts)])
			flush.Flush()
		}
		fmt.Fprint(w, "event: done\ndata: {}\n\n")
	}))
}

// pacedRuns has every client ask one agent once, and counts what came.
func pacedRuns(ctx context.Context, base, agent string) (int64, error) {
	client := &http.Client{Transport: program.Authorized(&http.Transport{MaxIdleConnsPerHost: pacedSessions})}
	defer client.CloseIdleConnections()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int64
		first error
	)
	for range pacedSessions {
		wg.Go(func() {
			n, err := pacedRun(ctx, client, base, agent)
			mu.Lock()
			defer mu.Unlock()
			total += int64(n)
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return total, first
}

func pacedRun(ctx context.Context, client *http.Client, base, agent string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/agui/chat?agent="+agent, strings.NewReader(prompt))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	n, finished, last := 0, false, ""
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, string(contentMark)):
			n++
		case strings.Contains(line, string(finishedMark)):
			finished = true
		case line != "":
			last = line
		}
	}
	if !finished || n != pacedDeltas {
		return n, errors.New("a run was not whole: " + last)
	}
	return n, lines.Err()
}
