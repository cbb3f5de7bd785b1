package proxies_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/test/nodetest"
)

// TestBrowser: a browser behind each proxy uses the page at "/": nginx as most people write it,
// where Host is the upstream's; with "Host $host", which leaves out the port; and the recipe.
func TestBrowser(t *testing.T) {
	nodetest.Need(t, "../judges/node_modules/playwright-core/package.json", "make setup-judges")
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
	nodetest.Run(t, []string{"SITES=" + string(sites)}, "browser.test.mjs")
}
