package main

import (
	"runtime/debug"
	"testing"
)

// TestVersionOf: a build always has a version, whatever it knows of itself.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	const commit = "60f9105aabbccddeeff00112233445566778899a"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	at := debug.BuildSetting{Key: "vcs.revision", Value: commit}
	for want, info := range map[string]*debug.BuildInfo{
		release + "-dev":                    built("(devel)"),
		release + "-dev+60f9105aabbc":       built("(devel)", at),
		release + "-dev+60f9105aabbc.dirty": built("v0.0.0-20260101000000-60f9105aabbc+dirty", at, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
		"1.2.3":                             built("v1.2.3", at),
		"1.2.3-rc.1":                        built("v1.2.3-rc.1", at),
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%s: got %s, want %s", info.Main.Version, got, want)
		}
	}
	if got := versionOf(built("v1.2.4-0.20260101000000-60f9105aabbc", at)); got != release+"-dev+60f9105aabbc" {
		t.Errorf("got %s", got)
	}
}
