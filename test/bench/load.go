package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aqueduct/test/program"
)

// streams is how many clients read at once.
const streams = 32

const prompt = `{"protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"hi"}]}`

// flood has every client ask again and again for a time, and counts the deltas that came.
// A run that is not whole is an error: a figure with losses is none.
func flood(ctx context.Context, base string, span time.Duration) (deltas int64, took time.Duration, err error) {
	client := &http.Client{Transport: program.Authorized(&http.Transport{MaxIdleConnsPerHost: streams})}
	defer client.CloseIdleConnections()
	begin := time.Now()
	end := begin.Add(span)
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		first atomic.Pointer[error]
	)
	for range streams {
		wg.Go(func() {
			for time.Now().Before(end) {
				n, err := oneRun(ctx, client, base)
				if err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				count.Add(int64(n))
			}
		})
	}
	wg.Wait()
	if p := first.Load(); p != nil {
		err = *p
	}
	return count.Load(), time.Since(begin), err
}

var (
	startedMark  = []byte(`"RUN_STARTED"`)
	contentMark  = []byte(`"TEXT_MESSAGE_CONTENT"`)
	finishedMark = []byte(`"RUN_FINISHED"`)
)

func oneRun(ctx context.Context, client *http.Client, base string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/agui/chat", strings.NewReader(prompt))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("HTTP %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	n, started, finished := 0, false, false
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case bytes.Contains(line, contentMark):
			n++
		case bytes.Contains(line, startedMark):
			started = true
		case bytes.Contains(line, finishedMark):
			finished = true
		}
	}
	if err := lines.Err(); err != nil {
		return n, err
	}
	if !started || !finished || n != deltasPerRun {
		return n, errors.New("a run was not whole")
	}
	return n, nil
}
