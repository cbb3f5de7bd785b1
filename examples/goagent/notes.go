// This file uses the context store and the transcript. The notes lie in an entry of the session; the thread's state
// has its key, by which any later run finds it, and any client sees that there is one.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"aqueduct/sdk/go/agent"
)

// remember keeps notes of any size: the thread's events carry their key alone.
func remember(ctx context.Context, run *agent.Run, words string) error {
	before, notes, err := notesOf(ctx, run)
	if err != nil {
		return err
	}
	kept, err := run.Context().Put(ctx, agent.Put{Key: before.Key, IfVersion: before.Version, Value: append(notes, words)})
	if agent.IsMoved(err) {
		run.Say("Another run has written notes at this moment. Please repeat it.")
		return nil
	}
	if err != nil {
		return err
	}
	run.Frame("state_snapshot", map[string]any{"snapshot": map[string]string{"notes": kept.Key}})
	run.Say(fmt.Sprintf("I will remember that (version %d).", kept.Version))
	return nil
}

// recall reads the notes. A Get that fails here fails the run: the state has a key whose entry should be there.
func recall(ctx context.Context, run *agent.Run) error {
	_, notes, err := notesOf(ctx, run)
	if err != nil {
		return err
	}
	if len(notes) == 0 {
		run.Say("I remember nothing.")
		return nil
	}
	run.Say("I remember: " + strings.Join(notes, ", ") + ".")
	return nil
}

// forget deletes the entry in the version that it read, so notes that another run adds at this moment are not lost
// unseen.
func forget(ctx context.Context, run *agent.Run) error {
	kept, _, err := notesOf(ctx, run)
	if err != nil {
		return err
	}
	if kept.Key != "" {
		if err := run.Context().Delete(ctx, kept.Key, kept.Version); err != nil {
			return err
		}
		run.Frame("state_delta", map[string]any{"delta": []map[string]string{{"op": "remove", "path": "/notes"}}})
	}
	run.Say("I have forgotten everything.")
	return nil
}

// notesOf reads the entry whose key is in the thread's state, if there is one.
func notesOf(ctx context.Context, run *agent.Run) (kept agent.Entry, notes []string, err error) {
	var state struct{ Notes string }
	if json.Unmarshal(run.State, &state) != nil || state.Notes == "" {
		return kept, nil, nil // another state, or none
	}
	if kept, err = run.Context().Get(ctx, state.Notes); err != nil {
		return kept, nil, err
	}
	err = kept.JSON(&notes)
	return kept, notes, err
}

// history prints the transcript as a model would be given it.
func history(ctx context.Context, run *agent.Run) error {
	page, err := run.Transcript(ctx, agent.TranscriptPage{Limit: 100, Form: "openai"})
	if err != nil {
		return err
	}
	lines := make([]string, len(page.Messages))
	for i, raw := range page.Messages {
		var m agent.Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		lines[i] = m.Role + ": " + m.Text()
	}
	run.Say(strings.Join(lines, "; "))
	return nil
}

// models asks by hand what any client of OpenAI's API would.
func models(ctx context.Context, run *agent.Run) error {
	base, key := run.LLM()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return err
	}
	for _, m := range list.Data {
		run.Say(m.ID + " ")
	}
	return nil
}
