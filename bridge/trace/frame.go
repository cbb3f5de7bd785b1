package trace

import "strconv"

// FrameError identifies the frame of an agent's stream that could not be read. It contains none of the frame's values,
// because agents put secrets into them.
type FrameError struct {
	Position int    `json:"position"`         // in the stream of this call, from 1
	Type     string `json:"type,omitempty"`   // the frame's own name of its type
	Member   string `json:"member,omitempty"` // JSON Pointer to the faulty member; "" for the frame as a whole
	Reason   string `json:"reason,omitempty"`
	Cause    error  `json:"-"` // for the log
}

// Error implements error. It is for the log.
func (e *FrameError) Error() string {
	text := "frame " + strconv.Itoa(e.Position)
	if e.Type != "" {
		text += ", " + e.Type
	}
	return text + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *FrameError) Unwrap() error { return e.Cause }
