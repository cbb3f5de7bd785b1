package agui

import (
	"slices"
	"strconv"

	"aqueduct/internal/modelform"
)

// FunctionNames maps each function name that does not fit to a unique one that does, and back. A name that fits does not
// change. The zero value maps nothing.
type FunctionNames struct{ fit, own map[string]string }

// newFunctionNames assigns names to the tools and then to the calls of a history, in their order.
func newFunctionNames(tools []Tool, messages []Message) (n FunctionNames) {
	var unfit []string
	taken := make(map[string]bool)
	add := func(name string) {
		if modelform.Name(name) != name {
			unfit = append(unfit, name)
		}
		taken[name] = true
	}
	for i := range tools {
		add(tools[i].Name)
	}
	for i := range messages {
		for j := range messages[i].ToolCalls {
			add(messages[i].ToolCalls[j].Function.Name)
		}
	}
	for _, name := range unfit {
		if n.fit[name] != "" {
			continue
		}
		if n.fit == nil {
			n.fit, n.own = make(map[string]string), make(map[string]string)
		}
		fit := modelform.Name(name)
		for i := 2; taken[fit]; i++ {
			number := "_" + strconv.Itoa(i)
			fit = modelform.Name(name)
			fit = fit[:min(len(fit), modelform.MaxName-len(number))] + number
		}
		taken[fit], n.fit[name], n.own[fit] = true, fit, name
	}
	return n
}

// Fit returns the fitting name of a function. A name that was unknown when the names were assigned is only put into the right
// form.
func (n *FunctionNames) Fit(name string) string {
	if fit, ok := n.fit[name]; ok {
		return fit
	}
	return modelform.Name(name)
}

// Own returns the original name for a fitting name, and any other name unchanged.
func (n *FunctionNames) Own(fit string) string {
	if own, ok := n.own[fit]; ok {
		return own
	}
	return fit
}

// Changed returns the original names of renamed functions, by their new names; nil if none was renamed.
func (n *FunctionNames) Changed() map[string]string { return n.own }

// fitTools returns one tool for each name, with schemas that all providers accept.
func fitTools(tools []Tool) []Tool {
	seen := make(map[string]bool, len(tools))
	fit := slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool {
		twice := seen[t.Name]
		seen[t.Name] = true
		return twice
	})
	for i := range fit {
		fit[i].Parameters = modelform.Schema(fit[i].Parameters)
	}
	return fit
}
