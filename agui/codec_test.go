package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"testing"
)

// codecTypes lists every event type once, in the order of the corpus.
func codecTypes() []Type {
	return []Type{
		TypeRunStarted, TypeRunFinished, TypeRunError, TypeStepStarted, TypeStepFinished,
		TypeTextMessageStart, TypeTextMessageContent, TypeTextMessageEnd, TypeTextMessageChunk,
		TypeToolCallStart, TypeToolCallArgs, TypeToolCallEnd, TypeToolCallChunk, TypeToolCallResult,
		TypeStateSnapshot, TypeStateDelta, TypeMessagesSnapshot, TypeActivitySnapshot, TypeActivityDelta,
		TypeReasoningStart, TypeReasoningEnd, TypeReasoningMessageStart, TypeReasoningMessageContent,
		TypeReasoningMessageEnd, TypeReasoningMessageChunk, TypeReasoningEncryptedValue,
		TypeRaw, TypeCustom, TypeSubagentStarted, TypeSubagentFinished, TypeSubagentError,
	}
}

// fillEvent sets every exported field below v. Strings carry what an encoder
// may escape in more than one way, raw JSON carries numbers beyond float64.
func fillEvent(v reflect.Value, name, text string) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		raw := `{"n":12345678901234567890.10,"u":"<é&\u2028>"}`
		if name == "Delta" || name == "Patch" {
			raw = `[{"op":"add","path":"/a","value":12345678901234567890}]`
		}
		v.SetBytes([]byte(raw))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(name + text)
		if name == "Role" {
			v.SetString("user")
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1<<31 - 1)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillEvent(v.Elem(), name, text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillEvent(v.Index(i), name, text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fillEvent(v.Field(i), f.Name, text)
			}
		}
	}
}

// TestCodecBytes compares what every event type is encoded to, and what its
// decoding keeps, with bytes recorded in testdata/codec.golden. Run it with
// UPDATE_CODEC=1 to record them again.
func TestCodecBytes(t *testing.T) {
	var got bytes.Buffer
	record := func(name string, line []byte) {
		fmt.Fprintf(&got, "%s\n\t%s\n", name, line)
		for _, extra := range []string{"", `,"unknown":{"a":[1e400]}`, `,"timestamp":1.5,"metadata":null`, `,"rawEvent":7,"subagentRunId":"x"`, `,"metadata":3`} {
			body := append(append(bytes.Clone(line[:len(line)-1]), extra...), '}')
			ev, err := Decode(body)
			if err != nil {
				fmt.Fprintf(&got, "\t%s ! %v\n", extra, err)
				continue
			}
			fmt.Fprintf(&got, "\t%s > %s\n", extra, ev.AppendJSON(nil))
		}
	}
	for _, typ := range codecTypes() {
		record(string(typ)+" empty", blank(typ).AppendJSON(nil))
		for _, text := range []string{"", "<&>\"\\/\u2028\x00\x7f\n\U0001f600é"} {
			ev := blank(typ)
			fillEvent(reflect.ValueOf(ev).Elem(), "", text)
			record(fmt.Sprintf("%s full %q", typ, text), ev.AppendJSON(nil))
		}
	}
	const golden = "testdata/codec.golden"
	if os.Getenv("UPDATE_CODEC") != "" {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wants, gots := bytes.Split(want, []byte("\n")), bytes.Split(got.Bytes(), []byte("\n"))
	for i := range min(len(wants), len(gots)) {
		if !bytes.Equal(wants[i], gots[i]) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, gots[i], wants[i])
		}
	}
	if len(wants) != len(gots) {
		t.Errorf("%d lines, want %d", len(gots), len(wants))
	}
}
