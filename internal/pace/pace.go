// Package pace plays something again at a speed: the pauses that it had, divided.
package pace

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Speed is by how much pauses are divided. The zero Speed is Max.
type Speed float64

// Max leaves every pause out.
const Max Speed = 0

// slowest is the smallest number that is taken: below it a pause of a minute would be hours, and a long one would not
// fit a time.Duration.
const slowest = 0.01

// maxWord is Max as text.
const maxWord = "max"

// errSpeed names the forms.
var errSpeed = errors.New(`a speed is a number from 0.01 on, such as 1 or 10, or "max"`)

// Parse reads a speed: a number from 0.01 on, or "max".
func Parse(s string) (Speed, error) {
	if s == maxWord {
		return Max, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	// NaN is not at least anything.
	if err != nil || !(n >= slowest) || n > float64(time.Hour) {
		return 0, errSpeed
	}
	return Speed(n), nil
}

// UnmarshalText reads a speed as Parse does, for flags.
func (s *Speed) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// UnmarshalJSON reads a number, or the text "max".
func (s *Speed) UnmarshalJSON(raw []byte) (err error) {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil || text != maxWord {
			return errSpeed
		}
	}
	*s, err = Parse(text)
	return err
}

// Of is what is left of a pause at this speed. A pause that is negative, because a clock was set back, is none.
func (s Speed) Of(pause time.Duration) time.Duration {
	if s == Max || pause <= 0 {
		return 0
	}
	return time.Duration(float64(pause) / float64(s))
}

// Wait waits for what is left of a pause, or until ctx ends.
func (s Speed) Wait(ctx context.Context, pause time.Duration) error {
	left := s.Of(pause)
	if left == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
