package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"aqueduct/bridge/signed"
	"aqueduct/internal/secretfile"
	"aqueduct/store"
)

// loadSecrets reads the secrets of a file's tools. They stay in memory: the database has none.
func (s *Service) loadSecrets(list []Definition) error {
	secrets := make(map[string]signed.Secret)
	for _, d := range list {
		if d.SecretFile == "" {
			continue
		}
		secret, err := secretfile.Read(d.SecretFile)
		if err != nil {
			return fmt.Errorf("%s: secret_file: %w", d.Name, err)
		}
		if len(secret) < signed.MinSecret {
			return fmt.Errorf("%s: secret_file: the secret must have at least %d characters", d.Name, signed.MinSecret)
		}
		secrets[d.Name] = signed.Secret(secret)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = secrets
	return nil
}

// secretOf is what calls of a tool are signed with; "" for one without. A tenant's own tool of the same name is another
// tool, at another address: it gets nothing signed by this secret.
func (s *Service) secretOf(tool store.Tool) signed.Secret {
	if tool.Source != store.ToolFromFile || tool.Tenant != "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets[tool.Name]
}

// bodyOf is what a tool is sent. The arguments are written as they are: encoding them once more would escape <, > and &,
// and what is sent would have another hash than what was approved. approval is the Approval that let the call through, which
// has the call's id; "" where nobody was asked.
func bodyOf(call store.ToolCall, asked bool) (body []byte, approval string) {
	if asked {
		approval = call.ID
	}
	head := mustJSON(struct {
		ToolCallID string `json:"tool_call_id"`
		ToolName   string `json:"tool_name"`
		RunID      string `json:"run_id"`
		SessionID  string `json:"session_id"`
		ApprovalID string `json:"approval_id,omitempty"`
		ArgsSHA256 string `json:"args_sha256"`
	}{call.ID, call.Name, call.TurnID, call.SessionID, approval, plainHash(call.Args)})
	var out bytes.Buffer
	out.Write(head[:len(head)-1])
	out.WriteString(`,"args":`)
	out.Write(orNull(call.Args))
	out.WriteByte('}')
	return out.Bytes(), approval
}

// plainHash is the hash that a tool can compute too, of exactly the bytes that it is sent. The one that an approval is bound
// to may be keyed.
func plainHash(sent []byte) string {
	sum := sha256.Sum256(orNull(sent))
	return hex.EncodeToString(sum[:])
}
