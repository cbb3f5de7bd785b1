package docker_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// instruction is one line of a Dockerfile, its continuations joined.
type instruction struct {
	word string
	rest string
}

// stage is what follows one FROM.
type stage struct {
	base  string
	name  string
	steps []instruction
}

// readStages reads as much of the format as the project's Dockerfile uses.
func readStages(t *testing.T, path string) []stage {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stages []stage
	var line string
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		text := strings.TrimSpace(sc.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if more, ok := strings.CutSuffix(text, `\`); ok {
			line += more
			continue
		}
		word, rest, _ := strings.Cut(line+text, " ")
		line = ""
		if word == "FROM" {
			words := strings.Fields(rest)
			stages = append(stages, stage{base: words[0], name: words[len(words)-1]})
			continue
		}
		if len(stages) == 0 {
			t.Fatalf("%s before FROM", word)
		}
		last := &stages[len(stages)-1]
		last.steps = append(last.steps, instruction{word, strings.TrimSpace(rest)})
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return stages
}

// all gives the rests of a stage's instructions of one word.
func (s stage) all(word string) []string {
	var out []string
	for _, i := range s.steps {
		if i.word == word {
			out = append(out, i.rest)
		}
	}
	return out
}

// list reads an exec form: ["a", "b"].
func list(t *testing.T, rest string) []string {
	t.Helper()
	var words []string
	if err := json.Unmarshal([]byte(rest), &words); err != nil {
		t.Fatalf("not in exec form: %s", rest)
	}
	return words
}
