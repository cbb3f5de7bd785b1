//go:build !race

// Run by scripts/test-unraced, which explains why.

package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestDownloadExtractRefuses what is not what was asked for, before anything is written.
func TestDownloadExtractRefuses(t *testing.T) {
	t.Parallel()
	good := zipped(t, "a", "text")
	lies := bytes.Clone(good) // it claims to be one byte long, and is four
	at := bytes.LastIndex(lies, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lies[at+24:], 1)
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[at+24:], 1<<31)
	many := make([]string, 2*10_001)
	for i := range many {
		many[i] = fmt.Sprint("f", i/2)
	}
	long := make([]string, 2*200)
	for i := range long {
		long[i] = strings.Repeat("x", 30_000) + fmt.Sprint(i/2)
	}
	for name, c := range map[string]struct {
		body               []byte
		path, hash, target string
		want               string
	}{
		"a wrong hash":        {body: good, hash: strings.Repeat("0", 64), want: "contentHash asks for"},
		"no hash":             {body: good, hash: "md5:1234", want: "not a sha256"},
		"a name that climbs":  {body: zipped(t, "ok", "x", "../slip", "x"), want: "outside the workspace"},
		"climbing in between": {body: zipped(t, "ok", "x", "a/../../slip", "x"), want: "outside the workspace"},
		"an absolute name":    {body: zipped(t, "ok", "x", "/tmp/slip", "x"), want: "outside the workspace"},
		"a backslash":         {body: zipped(t, "ok", "x", `..\slip`, "x"), want: "outside the workspace"},
		"a link":              {body: zipped(t, "ok", "x", "->out", "../.."), want: "is a link"},
		"a bomb":              {body: huge, want: "holds more than 1024 MiB"},
		"a bomb that lies":    {body: lies, want: "skill"},
		"very many files":     {body: zipped(t, many...), want: "more than 10000 files"},
		"an endless list":     {body: zipped(t, long...), want: "its list is larger than 4 MiB"},
		"not an archive":      {body: []byte("<html>"), want: "cannot be read"},
		"HTTP 404":            {body: good, path: "/missing", want: "HTTP 404"},
		"too many redirects":  {body: good, path: "/6", want: "more than 5 redirects"},
		"a target outside":    {body: good, target: "../x", want: "outside the workspace"},
		"an absolute target":  {body: good, target: "/tmp/x", want: "outside the workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.target == "" {
				c.target = "skill"
			}
			dir, err := placed(t, wire.InputSource{URI: shelf(t, c.body) + c.path + "?sig=hunter2", ContentHash: c.hash}, wire.InputTarget{Root: "WORKSPACE", Path: c.target})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the address is told: %v", err)
			}
			if files := left(t, dir); len(files) > 0 && name != "a bomb that lies" {
				t.Errorf("left behind: %v", files)
			}
			for _, file := range left(t, dir) {
				if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || len(text) > 2 {
					t.Errorf("%s: %d bytes %v", file, len(text), err)
				}
			}
		})
	}
}
