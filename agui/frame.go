package agui

import (
	"strconv"

	"aqueduct/internal/jsontext"
)

// AppendFrame appends one SSE frame. The id comes first, so that a reader cut
// off in the middle has either both or, without the closing blank line, neither.
// An id of 0 is left out: the frame is not part of a log. Lines end in LF only;
// CRLF makes the official client fail.
//
// The event must be one line, which [Event.AppendJSON] guarantees. Characters at which only some clients end a line are
// escaped here and not in the log, so that events of an older log are safe too.
func AppendFrame(dst []byte, id int64, event []byte) []byte {
	if id != 0 {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "data: "...)
	dst = jsontext.AppendLine(dst, event)
	return append(dst, '\n', '\n')
}
