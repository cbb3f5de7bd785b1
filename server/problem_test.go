package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/aguiagent"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/registry"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// TestEveryCode: each code that has a status is what some request gets.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "hi")
	question := h.question()
	gated := newEnv(t, waits(make(chan struct{})))
	gated.open(gated.prompt("T", "R", "hi"))
	full := newEnvWith(t, waits(make(chan struct{})), plan{limits: limit.Limits{Streams: 1}})
	full.open(full.prompt("T", "R", "hi"))
	leaving := newEnv(t, saysN(1))
	leaving.server.Drain()
	secured := newEnvWith(t, saysN(1), plan{auth: static(t)})
	impatient := newEnvWith(t, saysN(1), plan{limits: limit.Limits{BodyTime: 50 * time.Millisecond}})
	broken := newEnv(t, saysN(1))
	broken.faults.sessions = func() error { return errors.New("dsn=postgres://u:p@db at /srv/x.go:12") }
	sick := &fakeControl{}
	steered := newEnvWith(t, saysN(1), plan{control: sick})
	steered.chat("T", "R", "hi")
	fails := func(code string) func() answer {
		return func() answer {
			sick.err = &fault.Error{Code: code}
			return steered.do("POST", "/api/threads/T/control", `{"action":"close"}`)
		}
	}
	away := newEnv(t, saysN(1))
	away.faults.sessions = func() error { return fmt.Errorf("dial: %w", store.ErrUnavailable) }

	packed := newEnv(t, saysN(1))
	packed.faults.sessions = func() error { return fmt.Errorf("write: %w", store.ErrFull) }

	cases := map[string]func() answer{
		"invalid_body": func() answer { return h.do("POST", "/api/agui/chat", `{`) },
		"four_eyes": func() answer {
			w, id := asking(t, `{"verdict":"require_approval","four_eyes":true}`)
			return w.decide(id, `{"decision":"approve"}`)
		},
		"not_approver": func() answer {
			w, id := asking(t, `{"verdict":"require_approval","approvers":["role:boss"]}`)
			return w.decide(id, `{"decision":"approve"}`)
		},
		"policy_blocks": func() answer {
			w, id := asking(t, highRisk)
			if err := w.rules.Replace([]byte("rules: [{name: none, tool: cut, verdict: block}]")); err != nil {
				t.Fatal(err)
			}
			return w.decide(id, `{"decision":"approve"}`)
		},
		"edit_not_allowed": func() answer {
			w, id := asking(t, `{"risk":"high"}`)
			return w.decide(id, `{"decision":"approve","edited_args":{"wood":"elm"}}`)
		},
		"asker_gone": func() answer {
			w, id := asking(t, highRisk)
			call, err := w.store.ToolCall(t.Context(), store.System(), id)
			if err == nil {
				_, err = w.log.Keep(t.Context(), call.SessionID, []store.Move{store.TurnMove{ID: call.TurnID, Upstream: "a replica that is gone"}}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			return w.decide(id, `{"decision":"approve"}`)
		},
		"already_delivered": func() answer {
			channelMessage := newEnv(t, asks)
			channelMessage.chat("T", "R", "hi")
			id := channelMessage.question()
			channelMessage.decide(id, `{"decision":"approve"}`)
			for delivered := false; !delivered; {
				call, err := channelMessage.store.ToolCall(t.Context(), store.System(), id)
				if err != nil {
					t.Fatal(err)
				}
				delivered = !call.DeliveredAt.IsZero()
			}
			return channelMessage.do("POST", "/api/approvals/"+id+"/revoke", `{}`)
		},
		"already_dispatched": func() answer {
			w, id := asking(t, highRisk)
			w.decide(id, `{"decision":"approve"}`)
			<-w.said
			return w.do("POST", "/api/approvals/"+id+"/revoke", `{}`)
		},
		"agent_forbidden": func() answer {
			closed := newEnvWith(t, saysN(1), plan{rules: "agents: [{agent: scripted, user: somebody-else}]"})
			return closed.do("POST", "/api/agui/chat", inputBody("T", "R", "hi"))
		},
		"foreign_run": func() answer {
			return gated.do("POST", "/v1/tools/x:invoke", `{"run_id":"y"}`, "Authorization", "Bearer "+gated.agent.last().RunToken)
		},
		"context_owner_forbidden": func() answer { return h.do("POST", "/v1/context", `{"owner_type":"user","owner_id":"eve"}`) },
		"attachment_unknown": func() answer {
			return h.do("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T9","runId":"R9","protocolVersion":"1.0","messages":[{"id":"u","role":"user","content":[{"type":"image","source":{"type":"url","value":"/v1/context/%s"}}]}],"state":{}}`, uuid.NewString()))
		},
		"part_url_refused": func() answer {
			return h.do("POST", "/api/agui/chat", withPart("T9", "R8", `{"type":"image","source":{"type":"url","value":"file:///x"}}`))
		},
		"version_conflict": func() answer {
			return h.do("DELETE", "/v1/context/"+h.mints(`{}`).ContextKey, "", "If-Match", `"7"`)
		},
		"context_full": func() answer {
			return newEnvWith(t, saysN(1), plan{entryBytes: 1}).do("POST", "/v1/context", `{}`)
		},
		"message_role_forbidden": func() answer { return h.appends("T", `{"role":"assistant","content":"x"}`) },
		"message_id_conflict": func() answer {
			h.appends("T", `{"id":"x","role":"user","content":"x"}`)
			return h.appends("T", `{"id":"x","role":"user","content":"y"}`)
		},
		"thread_too_large": func() answer {
			filled := newEnvWith(t, saysN(1), plan{bridge: bridge.Limits{ThreadBytes: 1}})
			filled.chat("T", "R", "hi")
			return filled.appends("T", `{"role":"user","content":"x"}`)
		},
		"agent_call_loop": func() answer {
			return gated.do("POST", "/v1/agents/scripted:invoke", fmt.Sprintf(`{"run_id":%q,"input_message":{"role":"user","content":"x"}}`, gated.agent.last().TurnID),
				"Authorization", "Bearer "+gated.agent.last().RunToken)
		},
		"agent_call_forbidden": func() answer {
			return refusedCall(t, plan{rules: "agent_calls: []"}, 1, "d1")
		},
		"agent_call_depth":   func() answer { return refusedCall(t, plan{}, 1, "d1", "d2", "d3", "d4", "d5", "d6") },
		"agent_call_breadth": func() answer { return refusedCall(t, plan{}, 9, "d1") },
		"child_thread": func() answer {
			c, began := workingCall(t)
			return c.do("POST", "/api/agui/chat", inputBody(c.childOf(<-began).ExternalID, "R", "hi"))
		},
		"invalid_query": func() answer { return h.do("GET", "/api/threads?limit=x", "") },
		"invalid_cursor": func() answer {
			return h.do("GET", "/api/runs/R/events?after=x", "")
		},
		"unsupported_protocol_version": func() answer { return h.do("POST", "/api/agui/chat", `{"protocolVersion":"2.0"}`) },
		"invalid_id":                   func() answer { return h.do("GET", "/api/runs/a%0Ab", "") },
		"agent_unknown":                func() answer { return h.do("POST", "/api/agui/chat?agent=x", inputBody("N", "R", "hi")) },
		"state_too_large": func() answer {
			return h.do("POST", "/api/agui/chat", `{"messages":[{"id":"big","role":"user","content":"hi"}],"state":{"a":"`+strings.Repeat("x", agui.MaxStateBytes)+`"}}`)
		},
		"nothing_to_do": func() answer { return h.do("POST", "/api/agui/chat", `{"messages":[]}`) },
		"not_admin": func() answer {
			p, keys := keyed(t)
			typed := newEnvWith(t, saysN(1), p)
			dev := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{"dev"}}}, time.Hour)
			return typed.do("POST", "/v1/tools", `{"name":"x","kind":"client_tool"}`, "Authorization", "Bearer "+dev)
		},
		"not_operator": func() answer {
			p, keys := keyed(t)
			typed := newEnvWith(t, saysN(1), p)
			admin := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{"admin"}}}, time.Hour)
			return typed.do("GET", "/api/proxies", "", "Authorization", "Bearer "+admin)
		},
		"unauthorized":       func() answer { return secured.do("GET", "/api/threads", "") },
		"sign_in_link_spent": func() answer { return secured.do("POST", "/api/session", `{"code":"x"}`) },
		"cross_site_session": func() answer {
			return secured.do("POST", "/api/session", `{"token":"`+goodToken+`"}`, "Sec-Fetch-Site", "cross-site")
		},
		"session_required": func() answer {
			kept, _ := guarded(t, plan{})
			return kept.do("POST", "/api/tickets", `{"path":"/ws/client"}`, bearerOf(goodToken)...)
		},
		"token_required_again": func() answer {
			kept, _ := guarded(t, plan{})
			return kept.do("POST", "/api/tokens", `{"type":"user","user":"eve"}`, kept.signedIn(goodToken).all()...)
		},
		"forwarded_request": func() answer { return h.do("GET", "/api/threads", "", "Via", "1.1 proxy") },
		"forbidden_origin":  func() answer { return h.do("GET", "/api/threads", "", "Origin", "https://evil.example") },
		"ambiguous_member":  func() answer { return h.decide(question, `{"Decision":"approve"}`) },
		"control_rejected": func() answer {
			w := newEnvWith(t, saysN(1), plan{control: &fakeControl{}})
			w.chat("T", "R", "hi")
			got := make(chan answer, 1)
			go func() { got <- w.do("POST", "/api/threads/T/control", `{"action":"set_mode","mode_id":"yolo"}`) }()
			w.decide(w.asksSoon(), `{"decision":"reject"}`)
			return <-got
		},
		"unknown_member":     func() answer { return h.do("GET", "/api/threads?colour=red", "") },
		"not_found":          func() answer { return h.do("GET", "/api/threads/none", "") },
		"method_not_allowed": func() answer { return h.do("PATCH", "/api/threads", `{}`) },
		"body_too_slow":      func() answer { return impatient.slowBody() },
		"run_in_progress":    func() answer { return gated.do("POST", "/api/agui/chat", inputBody("T", "R2", "more")) },
		"run_id_conflict":    func() answer { return h.do("POST", "/api/agui/chat", inputBody("T", "R", "another")) },
		"unknown_option":     func() answer { return h.decide(question, `{"option_id":"perhaps"}`) },
		"invalid_answer":     func() answer { return h.decide(question, `{"decision":"approve","approved":false}`) },
		"already_decided": func() answer {
			h.decide(question, `{"decision":"approve"}`)
			return h.decide(question, `{"decision":"reject"}`)
		},
		"body_too_large": func() answer {
			req := httptest.NewRequest("POST", "/api/agui/chat", new(endless))
			req.Header.Set("Content-Type", "application/json")
			return h.direct(req)
		},
		"unsupported_media_type": func() answer { return h.do("POST", "/api/agui/chat", `{}`, "Content-Type", "text/plain") },
		"beyond_log":             func() answer { return h.do("GET", "/api/runs/R/events?after=9999", "") },
		"foreign_host":           func() answer { return h.do("GET", "/api/threads", "", "Host", "evil.example") },
		"too_many_streams":       func() answer { return full.do("POST", "/api/agui/chat", inputBody("T2", "R", "hi")) },
		"storage_unavailable":    func() answer { return away.do("GET", "/api/threads", "") },
		"storage_full":           func() answer { return packed.do("GET", "/api/threads", "") },
		"shutting_down":          func() answer { return leaving.do("POST", "/api/agui/chat", inputBody("T", "R", "hi")) },
		"upgrade_required":       func() answer { return h.do("GET", "/ws/client", "") },
		"proxy_unknown":          fails(bridge.ControlUnknown),
		"proxy_connected":        fails(bridge.ControlConnected),
		"no_agent_running":       fails(bridge.ControlNoAgent),
		"control_not_offered":    fails(bridge.ControlNotOffered),
		"control_unsupported":    fails(bridge.ControlUnsupported),
		"control_failed":         fails(bridge.ControlFailed),
		"agent_offline":          fails(bridge.ControlOffline),
		"control_timeout":        fails(bridge.ControlTimeout),
		"internal_error":         func() answer { return broken.do("GET", "/api/threads", "") },
	}
	linkCases(t, cases)
	modelCases(t, cases)
	queueCases(t, cases)
	schemaCases(t, cases)
	limitCases(t, cases)
	accessCases(t, cases)
	shareCases(t, cases)
	signInCases(t, cases)
	for _, code := range problem.Codes() {
		if code.Status == 0 {
			continue
		}
		cause, ok := cases[code.Name]
		if !ok {
			t.Errorf("%s: no request gets it", code.Name)
			continue
		}
		got := cause()
		if p := isProblem(t, got, code.Status); p["code"] != code.Name {
			t.Errorf("%s: got %v", code.Name, p)
		}
		if code.Status == 503 && got.header.Get("Retry-After") == "" {
			t.Errorf("%s: when to come back?", code.Name)
		}
	}
	if n := full.threads(); n != 1 {
		t.Errorf("a prompt refused for want of streams was taken: %d threads", n)
	}
}

// question is the one that is open.
func (h *env) question() string {
	h.t.Helper()
	return h.questions()[0]
}

// questions are those that are open, oldest first.
func (h *env) questions() []string {
	h.t.Helper()
	rows, err := h.store.Approvals(h.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
	if err != nil || len(rows) == 0 {
		h.t.Fatalf("%d questions, %v", len(rows), err)
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[len(rows)-1-i] = row.ID
	}
	return ids
}

func (h *env) decide(id, body string) answer {
	h.t.Helper()
	return h.do("POST", "/api/approvals/"+id+"/decision", body)
}

// slowBody announces a body and does not send it.
func (h *env) slowBody() answer {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/agui/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// TestS38NothingFromInside: an internal error has an id and general words.
func TestS38NothingFromInside(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for name, fault := range map[string]func() error{
		"error": func() error { return errors.New("dsn=postgres://u:secret@db /srv/x.go:12") },
		"panic": func() error { panic("secret: nil map at /srv/x.go:12") },
	} {
		h.faults.sessions = fault
		got := h.do("GET", "/api/threads", "")
		p := isProblem(t, got, 500)
		if id, _ := p["errorId"].(string); len(id) < 10 {
			t.Errorf("%s: error id %q", name, id)
		}
		for _, inside := range []string{"secret", "postgres", "/srv", "panic", "goroutine", "nil map"} {
			if strings.Contains(got.body, inside) {
				t.Errorf("%s: %s", name, got.body)
			}
		}
	}
}

// TestCodesAreComplete: what other rooms give is in the table, once.
func TestCodesAreComplete(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, c := range problem.Codes() {
		if known[c.Name] || c.Meaning == "" {
			t.Errorf("%s: twice, or without a meaning", c.Name)
		}
		known[c.Name] = true
	}
	for _, name := range []string{
		bridge.CodeServerRestarted, bridge.CodeAgentUnknown, bridge.CodeAgentGone, bridge.CodeUpstreamProtocol, bridge.CodeStorageRefused, bridge.CodeOwnerUnavailable,
		bridge.CodeStateInvalid, bridge.CodeStateTooLarge, bridge.CodeInternal, bridge.CodeRunTooLarge, bridge.CodeThreadTooLarge, bridge.CodeTooManyQuestions,
		bridge.RefusedRunInProgress, bridge.RefusedRunIDConflict, bridge.RefusedNothingToDo, bridge.RefusedUnknownAgent, bridge.RefusedInvalidID,
		bridge.RefusedForbiddenAgent, bridge.RefusedNotShared, bridge.RefusedTooManyShares, bridge.RefusedTooManyTurns, bridge.RefusedTenantFull,
		bridge.RefusedAttachment, bridge.RefusedPartURL, contextstore.RefusedOwner, contextstore.RefusedVersion, contextstore.RefusedFull,
		registry.Invalid, registry.Taken, registry.TooMany, bridge.RefusedCallForbidden, bridge.RefusedCallLoop, bridge.RefusedCallDepth, bridge.RefusedCallBreadth, bridge.RefusedChildsThread, bridge.CodeChildCancelled,
		bridge.ControlRejected, bridge.ControlOffline, bridge.ControlNoAgent, bridge.ControlUnsupported, bridge.ControlNotOffered, bridge.ControlFailed,
		bridge.ControlTimeout, bridge.ControlUnknown, bridge.ControlConnected,
		approval.AlreadyDecided, approval.AskerLost, approval.AlreadyDelivered, approval.AlreadyDispatched, approval.NotApprover, approval.FourEyes,
		approval.PolicyBlocks, approval.EditRefused, approval.UnknownOption, approval.InvalidAnswer,
		httpagent.CodeUnreachable, httpagent.CodeRefused, httpagent.CodeStatus, httpagent.CodeNotStream, httpagent.CodeFirstByte, httpagent.CodeIdle,
		httpagent.CodeTotal, httpagent.CodeTruncated, httpagent.CodeMalformed, httpagent.CodeTooLarge, aguiagent.CodeCancelled, aguiagent.CodeError,
	} {
		if !known[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// TestUnknownRoutes are plain 404s, not the page.
func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for _, path := range []string{"/api", "/api/nothing", "/v1/nothing", "/nothing.js", "/../go.mod", "/api/threads/a/b/c"} {
		isProblem(t, h.do("GET", path, ""), 404)
	}
}
