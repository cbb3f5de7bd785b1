// This file makes tools of what a server offers. A tool is named SERVER.TOOL, so that two servers may have tools of
// one name, and is checked like any that is registered over the API.

package mcpservers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/store"
)

const (
	// mostTools bounds the tools of one server. It is more than a model can choose from, and a list without end would fill the
	// store.
	mostTools = 500
	// longestDescription bounds a description, which goes into the prompt of every agent.
	longestDescription = 16 << 10
)

// list reads the server's tools, page by page.
func (s *server) list(ctx context.Context, session *mcp.ClientSession) ([]*mcp.Tool, error) {
	var list []*mcp.Tool
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("tools/list: %w", err)
		}
		if len(list) == mostTools {
			s.logger.Warn("an MCP server has too many tools; the rest is left out", slog.Int("taken", mostTools))
			break
		}
		list = append(list, tool)
	}
	return list, nil
}

// rows makes tools of what the server offers. What cannot be one is left out: the others work. One line of the log has their number,
// and the reason of the first.
func (s *server) rows(offered []*mcp.Tool) []store.Tool {
	seen := make(map[string]bool)
	rows := make([]store.Tool, 0, len(offered))
	left, name := 0, ""
	var why error
	for _, of := range offered {
		row, err := s.row(of)
		if err == nil && seen[row.Name] {
			err = fmt.Errorf("the server has two tools of that name")
		}
		if err != nil {
			if left++; left == 1 {
				name, why = bounded(of.Name), err
			}
			continue
		}
		seen[row.Name] = true
		rows = append(rows, row)
	}
	if left > 0 {
		s.logger.Warn("tools of an MCP server are left out", slog.Int("tools", left), slog.String("first", name), slog.Any("error", why))
	}
	return rows
}

// row is one tool, checked like one that is registered.
func (s *server) row(of *mcp.Tool) (store.Tool, error) {
	schema, err := json.Marshal(of.InputSchema)
	if err != nil {
		return store.Tool{}, err
	}
	if len(of.Description) > longestDescription {
		return store.Tool{}, fmt.Errorf("its description has more than %d bytes", longestDescription)
	}
	row, err := tools.Definition{
		Name: s.name + "." + of.Name, Kind: tools.WireServer, Endpoint: tools.MCPEndpoint(s.name), Schema: schema, Policy: hinted(of.Annotations),
	}.Tool("", store.ToolFromMCP, func(string) error { return nil })
	if err != nil {
		return store.Tool{}, err
	}
	row.Metadata, err = json.Marshal(metadata{of.Description, of.Title, of.Annotations})
	return row, err
}

// metadata is what is kept of a tool to be shown.
type metadata struct {
	Description string               `json:"description"`
	Title       string               `json:"title,omitempty"`
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// hinted is the policy of a tool by what its server states of it. A tool that is stated to destroy is of high risk. What is
// stated to do no harm changes nothing: without a risk the policy asks, as for every tool that it does not know.
func hinted(a *mcp.ToolAnnotations) json.RawMessage {
	if a == nil || a.DestructiveHint == nil || !*a.DestructiveHint {
		return nil
	}
	raw, _ := json.Marshal(map[string]policy.Risk{"risk": policy.High}) // always can be written
	return raw
}
