package proxies_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestBrowser: a browser behind each proxy uses the page at "/": nginx as most people write it,
// where Host is the upstream's; with "Host $host", which leaves out the port; and the recipe.
func TestBrowser(t *testing.T) {
	if _, err := os.Stat("../judges/node_modules/playwright-core/package.json"); err != nil {
		t.Fatal(`playwright-core is missing; run "make setup-judges"`)
	}
	upstream := serve(t, "--demo", "--demo-pace", "1ms", "--heartbeat", heartbeat)
	https := recipe(t, upstream, "")
	sites, err := json.Marshal(map[string]string{
		"nginx with its defaults": plain(t, upstream, "").url,
		"nginx with Host $host":   plain(t, upstream, "proxy_set_header Host $host;").url,
		"nginx.conf":              strings.Replace(https.url, siteName, "localhost", 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-timeout=60000", "--test-reporter=spec", "browser.test.mjs")
	cmd.Env = append(os.Environ(), "SITES="+string(sites), "NO_COLOR=1")
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
