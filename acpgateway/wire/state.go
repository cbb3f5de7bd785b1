package wire

import "encoding/json"

// Setting is a configuration option of a session, as far as it is read here. Its other
// members are the agent's and travel raw.
type Setting struct {
	ID       string
	Category string
	Current  string   // of a select
	Values   []string // that a select offers, of all its groups
}

// Settings is a list of configuration options, which always comes whole.
type Settings struct {
	List []Setting
	Raw  json.RawMessage // an array, or nil
}

// Named finds the option with an id, else the first of a category of that name. Before
// categories there was only the id.
func (s Settings) Named(name string) (Setting, bool) {
	for _, o := range s.List {
		if o.ID == name {
			return o, true
		}
	}
	for _, o := range s.List {
		if o.Category == name {
			return o, true
		}
	}
	return Setting{}, false
}

// UnmarshalJSON reads tolerantly.
func (s *Setting) UnmarshalJSON(raw []byte) error {
	var wire struct {
		ID           lax[string]     `json:"id"`
		Category     lax[string]     `json:"category"`
		CurrentValue lax[string]     `json:"currentValue"`
		Options      laxList[choice] `json:"options"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*s = Setting{ID: wire.ID.Val, Category: wire.Category.Val, Current: wire.CurrentValue.Val}
	for _, c := range wire.Options.Val {
		for _, c := range append(c.Options.Val, c.option) {
			if c.Value.Set {
				s.Values = append(s.Values, c.Value.Val)
			}
		}
	}
	return nil
}

// choice is an option of a select, or a group of them.
type choice struct {
	option
	Options laxList[option] `json:"options"`
}

type option struct {
	Value lax[string] `json:"value"`
}

// SessionView is what the responses to session/new and session/load tell, and what
// updates tell anew: modes, models, options, commands, usage, information. A nil member
// was not named.
type SessionView struct {
	Modes     json.RawMessage // an object
	Models    json.RawMessage // an object
	Settings  Settings
	Commands  json.RawMessage // an array
	ModeID    string
	ModelID   string
	Used      json.RawMessage // numbers, as they came
	Size      json.RawMessage
	Cost      json.RawMessage
	Title     *string // "" clears
	UpdatedAt *string
}

// Session is the view of the state-like variants of an update.
func (u Update) Session() SessionView { return ReadSession(u.Raw) }

// ReadSession reads a state-like update or the result of session/new or session/load.
func ReadSession(raw json.RawMessage) SessionView {
	var wire struct {
		Modes             json.RawMessage  `json:"modes"`
		Models            json.RawMessage  `json:"models"`
		ConfigOptions     json.RawMessage  `json:"configOptions"`
		AvailableCommands json.RawMessage  `json:"availableCommands"`
		CurrentModeID     lax[string]      `json:"currentModeId"`
		ModeID            lax[string]      `json:"modeId"`
		CurrentModelID    lax[string]      `json:"currentModelId"`
		Used              lax[json.Number] `json:"used"`
		Size              lax[json.Number] `json:"size"`
		Cost              json.RawMessage  `json:"cost"`
		Title             lax[string]      `json:"title"`
		UpdatedAt         lax[string]      `json:"updatedAt"`
	}
	var v SessionView
	if json.Unmarshal(raw, &wire) != nil {
		return v
	}
	v.Modes, v.Models = object(wire.Modes), object(wire.Models)
	v.Settings = ReadSettings(wire.ConfigOptions)
	v.Commands = array(wire.AvailableCommands)
	v.ModeID, v.ModelID = wire.CurrentModeID.Val, wire.CurrentModelID.Val
	if v.ModeID == "" {
		v.ModeID = wire.ModeID.Val
	}
	v.Used, v.Size, v.Cost = number(wire.Used), number(wire.Size), object(wire.Cost)
	v.Title, v.UpdatedAt = clearable(wire.Title), clearable(wire.UpdatedAt)
	v.derive()
	return v
}

// derive takes the current mode and model from where they are named most directly: from
// the options, which supersede modes, else from modes and models.
func (v *SessionView) derive() {
	if o, ok := v.Settings.Named("mode"); ok && o.Current != "" {
		v.ModeID = o.Current
	}
	if o, ok := v.Settings.Named("model"); ok && o.Current != "" {
		v.ModelID = o.Current
	}
	if v.ModeID == "" {
		v.ModeID = member(v.Modes, "currentModeId")
	}
	if v.ModelID == "" {
		v.ModelID = member(v.Models, "currentModelId")
	}
}

// ReadSettings reads a list of configuration options. It does not fail.
func ReadSettings(raw json.RawMessage) Settings {
	var list laxList[Setting]
	if !isArray(raw) || json.Unmarshal(raw, &list) != nil {
		return Settings{}
	}
	return Settings{List: list.Val, Raw: raw}
}

// clearable tells a new text apart from none: null clears, as does the empty text.
func clearable(l lax[string]) *string {
	if !l.Set && !l.Null {
		return nil
	}
	return &l.Val
}

func number(l lax[json.Number]) json.RawMessage {
	if raw := json.RawMessage(l.Val); l.Set && json.Valid(raw) {
		return raw
	}
	return nil
}

func object(raw json.RawMessage) json.RawMessage {
	if !isObject(raw) {
		return nil
	}
	return raw
}

func array(raw json.RawMessage) json.RawMessage {
	if !isArray(raw) {
		return nil
	}
	return raw
}

// member is a text member of an object.
func member(raw json.RawMessage, name string) string {
	var m map[string]lax[string]
	if !isObject(raw) || json.Unmarshal(raw, &m) != nil {
		return ""
	}
	return m[name].Val
}
