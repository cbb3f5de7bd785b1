package main

import (
	"testing"

	"aqueduct/server/limit"
)

func TestRateFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]limit.Rate{"100:5000": {PerSecond: 100, Burst: 5000}, "0.5:1": {PerSecond: 0.5, Burst: 1}, "off": {PerSecond: -1}} {
		var f rateFlag
		if err := f.UnmarshalText([]byte(text)); err != nil || f.Rate != want {
			t.Errorf("%s: %+v %v", text, f.Rate, err)
		}
	}
	for _, text := range []string{"", "5", "5:", ":5", "0:5", "-1:5", "NaN:5", "5:0", "x:y"} {
		if err := new(rateFlag).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
