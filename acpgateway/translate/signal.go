package translate

import (
	"encoding/json"

	"aqueduct/acpgateway/wire"
)

// ProxyUpdate appends the events for a proxy's report about itself. None of it is ever chat text.
func (t *Translator) ProxyUpdate(dst []Out, content json.RawMessage) []Out {
	signal, err := wire.DecodeSignal(content)
	if err != nil {
		signal = nil
	}
	return t.ProxySignal(dst, signal, content)
}

// ProxySignal is ProxyUpdate for a signal that is decoded already; nil when its content cannot be read.
//
// permission_request and elicitation come as signals and not as updates: the proxy answers the agent's JSON-RPC
// request itself when the gateway's frame comes.
func (t *Translator) ProxySignal(dst []Out, signal wire.Signal, content json.RawMessage) []Out {
	if signal == nil {
		return t.ids.custom(dst, "proxy."+signalName(content), content)
	}
	switch s := signal.(type) {
	case *wire.Text:
		return t.host.line(dst, s.Text)
	case *wire.InitStep:
		return t.host.initStep(dst, s, content)
	case *wire.InitResult:
		return t.host.initResult(dst, s)
	case *wire.InstanceStatus:
		return t.host.sandbox(dst, s)
	case *wire.TransportConnected:
		t.host.errorContext.connected()
		return t.state.set(dst, member{"transport", json.RawMessage(`{"connected":true}`)})
	case *wire.TransportDisconnected:
		return t.host.disconnected(dst, s)
	case *wire.PermissionRequest:
		return t.questions.permission(dst, content)
	case *wire.ElicitationRequest:
		return t.questions.elicitation(dst, s)
	case *wire.PermissionCancelled:
		return append(dst, Out{Withdrawn: string(s.RequestID)})
	}
	return t.otherSignal(dst, signal.Kind(), content)
}

// otherSignal is a notification of the agent's, an update in the old form, or news.
func (t *Translator) otherSignal(dst []Out, name string, content json.RawMessage) []Out {
	if name == "session_update" {
		var old struct{ Update json.RawMessage }
		if json.Unmarshal(content, &old) == nil && len(old.Update) > 0 {
			return t.Update(dst, old.Update)
		}
	}
	return t.ids.custom(dst, "proxy."+name, content)
}
