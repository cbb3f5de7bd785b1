// Package llmproxy passes calls of models on to the operator's upstreams, in OpenAI's API (platform contract §7.1): an agent
// uses any OpenAI SDK with this server as its base_url and its run token as its api_key. Keys of upstreams stay here.
//
//   - Upstreams (config.go): which upstream answers for which model, and what its tokens cost
//   - request.go: what has to be known of a body, and the one change that is made to it
//   - attempt.go: the upstreams that are tried, one after the other
//   - relay.go: the answer on its way to the agent, as it came
//   - meter.go: what the answer used, read beside
//
// A call takes this way: the token, the body, the upstreams of its model, the row that says that it began, the first upstream
// that takes it, the answer on its way back with the meter beside it, and the row that says how it ended. Nothing is retried
// once a byte of an answer has gone out.
//
// The package knows HTTP and OpenAI's bodies. Who calls and what is kept of a call is bridge/modelcalls'.
package llmproxy
