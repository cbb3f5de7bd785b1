package httpagent

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"aqueduct/bridge/aguiagent"
)

// squeezed reads one frame with a limit of 64 KiB, in pieces.
func squeezed(t *testing.T, stream string, pieces func(io.Reader) io.Reader) (frame, error) {
	t.Helper()
	r := newFrameReader(pieces(strings.NewReader(stream)), 64<<10)
	r.echo = new(squeezer)
	frames, err := r.next()
	if err != nil {
		return frame{}, err
	}
	return frames[0], nil
}

// TestEchoIsSqueezed: of what an agent was sent and sends back, pictures are left out in every spelling and wherever a read
// ends; all else stays as it is.
func TestEchoIsSqueezed(t *testing.T) {
	t.Parallel()
	picture := strings.Repeat("iVBORw0KGgo/+A==", 20<<10)
	lines := strings.Repeat(`iVBORw0KGgo\/+A\r\n`, 20<<10)
	sealed := strings.Repeat("x", 30<<10)
	const cut = aguiagent.LeftOut
	for name, c := range map[string]string{
		"messages":          `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","content":[{"type":"image","source":{"type":"data","value":"$P"}}]},{"id":"m","content":"well \"said\" \\"}]}`,
		"a data URL":        `{"type":"RAW","event":{"url":"data:image/png;base64,$P","n":1.50}}`,
		"a quoted JSON":     `{"type":"RAW","event":"{\"url\":\"data:image/png;base64,$P\",\"x\":[\"\\\\\"]}"}`,
		"the input":         `{"type":"RUN_STARTED","input":{"messages":[{"value":"$P"},{"value":"$P"}]}}`,
		"a raw event":       `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"yes","rawEvent":{"d":"$P"}}`,
		"the state":         `{"type":"STATE_SNAPSHOT","snapshot":{"messages":[{"url":"$P"}],"a":"b"}}`,
		"the type last":     `{"messages":[{"value":"$P","encryptedValue":"$E"}],"type":"MESSAGES_SNAPSHOT"}`,
		"lines in a string": `{"type":"RAW","event":{"d":"$L","e":"$L\u00e9\"$L"}}`,
	} {
		fill := func(picture, lines string) string {
			return strings.NewReplacer("$P", picture, "$L", lines, "$E", sealed).Replace(c)
		}
		in, want := fill(picture, lines), fill(cut, cut)
		for how, pieces := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "bytes": iotest.OneByteReader} {
			got, err := squeezed(t, "data: "+in+"\n\nevent: next\ndata: 1\n\n", pieces)
			if err != nil || string(got.data) != want || !json.Valid(got.data) {
				t.Errorf("%s, %s: %v, %.300s", name, how, err, got.data)
			}
		}
	}
}

// TestOwnIsNotSqueezed: what is the agent's own keeps to the limit, and so does what is left of an echo.
func TestOwnIsNotSqueezed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300<<10)
	for name, in := range map[string]string{
		"a delta":            `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"` + long + `"}`,
		"arguments":          `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"` + long + `"}`,
		"a result":           `{"type":"TOOL_CALL_RESULT","toolCallId":"c","content":"` + long + `"}`,
		"a custom event":     `{"type":"CUSTOM","name":"n","value":{"event":"` + long + `"}}`,
		"an encrypted value": `{"type":"MESSAGES_SNAPSHOT","messages":[{"encryptedValue":"` + long + `"}]}`,
		"texts":              `{"type":"MESSAGES_SNAPSHOT","messages":[{"content":"` + strings.Repeat("some words ", 30<<10) + `"}]}`,
		"many lines":         "{\"type\":\"RAW\",\ndata: \"event\":\"" + long + `"}`,
	} {
		if got, err := squeezed(t, "data: "+in+"\n\n", func(r io.Reader) io.Reader { return r }); !errors.Is(err, errFrameTooLarge) {
			t.Errorf("%s: %v, %.100s", name, err, got.data)
		}
	}
}
