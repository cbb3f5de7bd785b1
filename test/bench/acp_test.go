package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// targetACP is what an event of an ACP agent may cost, in events of an HTTP agent.
const targetACP = 1.5

// BenchmarkACP is 200 chats at 50 updates a second: once with an HTTP agent, once with ACP
// agents behind one proxy's socket. Both are the same server, in the same run.
func BenchmarkACP(b *testing.B) {
	binary, dir := shipped(b), b.TempDir()
	agent := startRole(b, "paced", "")
	key := filepath.Join(dir, "key")
	server := startProcess(b, exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--signing-key-file", key,
		"--database", "sqlite:"+filepath.Join(dir, "bench.db"), "--agent", "http="+agent.url))
	token, err := exec.Command(binary, "token", "issue", "--type", "acp_proxy", "--proxy", "acp", "--signing-key-file", key).Output()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serveFakeProxy(ctx, server.url, strings.TrimSpace(string(token)), "acp") }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	time.Sleep(settleDown) // the proxy registers
	cost := map[string][]float64{}
	for range rounds {
		for _, agent := range []string{"http", "acp"} {
			cost[agent] = append(cost[agent], pacedCost(b, server, agent))
		}
	}
	ratio := median(cost["acp"]) / median(cost["http"])
	fmt.Printf("| agent | CPU s per million events |\n| --- | --- |\n| HTTP | %.2f %.2f |\n| ACP | %.2f %.2f |\n| ratio | %.2f |\n",
		median(cost["http"]), cost["http"], median(cost["acp"]), cost["acp"], ratio)
	b.ReportMetric(ratio, "acp-x-http")
	if ratio > targetACP {
		b.Errorf("an event of an ACP agent costs %.2f of an HTTP agent's, the target is %.2f", ratio, targetACP)
	}
}

func pacedCost(b *testing.B, server process, agent string) float64 {
	b.Helper()
	before, err := cpuOf(server.pid)
	if err != nil {
		b.Fatal(err)
	}
	n, err := pacedRuns(context.Background(), server.url, agent)
	if err != nil {
		b.Fatalf("%s: %v", agent, err)
	}
	time.Sleep(settleDown)
	after, err := cpuOf(server.pid)
	if err != nil {
		b.Fatal(err)
	}
	used := (after - before).Seconds() / (float64(n) / 1e6)
	b.Logf("%-5s %6.2f CPU s per million events", agent, used)
	return used
}
