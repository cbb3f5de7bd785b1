// This file is the contract of dialects: a log holds AG-UI 1.0, and each client reads the version it
// knows.

package agui

// Dialect turns the events of a log into the frames one kind of client wants.
// One value serves one stream.
type Dialect interface {
	// AppendFrames appends the frames of one encoded event. The id is on the
	// last of them, so a client that has it has the whole event. There may be
	// none.
	AppendFrames(dst []byte, id int64, event []byte) []byte
}

// NewV1 is the dialect of AG-UI 1.0: the bytes of the log as they are.
func NewV1() Dialect { return v1{} }

type v1 struct{}

func (v1) AppendFrames(dst []byte, id int64, event []byte) []byte {
	return AppendFrame(dst, id, event)
}
