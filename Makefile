# Everything this project does from the command line. "make" alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# Go and npm keep their caches under HOME.
ifeq ($(strip $(HOME)),)
export HOME := $(shell mktemp -d)
endif

GOLANGCI_LINT_VERSION := v2.15.0
GREMLINS_VERSION := v0.6.0
GOVULNCHECK_VERSION := v1.1.4
CYCLONEDX_VERSION := v1.9.0
# test/blobs has the same version in the name of the program that it starts.
VERSITYGW_VERSION := v1.8.0
# What bin/aqueduct may weigh, stripped of its symbols: 56 MiB, with the SDKs of MCP, OpenTelemetry and S3.
BINARY_MOST := 58720256
FUZZTIME ?= 2s
BENCHTIME ?= 1s
# How many schedules of contenders for one question TestToolRaces runs on each database in
# "make soak"; without the variable, in "make test", it runs 150.
AQUEDUCT_RACES ?= 10000
# How long TestChaos troubles the server on each database in "make soak"; without the variable,
# in "make test", it takes 20 s.
AQUEDUCT_CHAOS ?= 10m
# How many times each kind of outage takes the database away in "make soak" (TestDatabaseAway); without the variable, in
# "make test", three times for each span.
AQUEDUCT_AWAY ?= 50
# How long TestMemoryLevelsOff (test/faults) keeps a steady load on the server in "make soak"; without the variable, in
# "make test", it takes 20 s.
AQUEDUCT_MEMORY ?= 1h
# How long TestS27Abuse holds connections without a credential in "make soak"; without the variable,
# in "make test", it takes 8 s.
AQUEDUCT_ABUSE ?= 60s
# How long each way of one user to trouble the others lasts in "make soak" (TestOneUserHoldsNobodyUp), which tries all of them;
# without the variable, in "make test", a dozen last 700 ms each.
AQUEDUCT_ONE_USER ?= 5s
# How many streams of any frames TestFuzzStreams has the clients read in "make soak"; without the
# variable, in "make test", it has 200.
AQUEDUCT_FUZZ_STREAMS ?= 20000
# How many patches TestPatchesAgainstTheClients compares with the library of the official clients in "make soak"; without the
# variable, in "make test", it has 1500.
AQUEDUCT_PATCHES ?= 10000
# How many approvals of each SDK's agent are open when TestRestartKeepsApprovals (test/sdk) restarts the server, in "make soak";
# without the variable, in "make test", it has 6.
AQUEDUCT_RESTART ?= 20
# How many prompts TestQueue (test/faults) puts into the queue of a server that is killed, on each database, in "make soak";
# without the variable, in "make test", it has 400.
AQUEDUCT_QUEUE ?= 10000

# How much of what "make mutate" changes the tests must notice, in percent.
MUTATE_LEAST := 85

.PHONY: help build sbom run check test test-go test-faults test-timed test-judges test-agents test-sdk lint vulncheck house house-check \
	mutate fuzz soak bench clean \
	setup setup-postgres setup-s3 setup-chromium setup-proxies setup-judges setup-oidc setup-agents setup-tdesign setup-chats setup-copilotkit setup-models setup-aguiagents setup-mcp setup-sdk

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# Packages of others that run at the start, or so rarely that what inlining saves is not seen: without it they are 2 MB smaller.
COLD := cel.dev/... github.com/antlr4-go/... google.golang.org/protobuf/... github.com/alecthomas/kong go.yaml.in/... github.com/pelletier/... \
	github.com/go-playground/... github.com/gabriel-vasile/... github.com/pressly/... github.com/prometheus/... github.com/go-jose/... \
	github.com/modelcontextprotocol/... github.com/google/jsonschema-go/... github.com/segmentio/... github.com/minio/... github.com/klauspost/... \
	github.com/yosida95/... github.com/landlock-lsm/... github.com/coreos/... encoding/gob encoding/xml html/template text/template/... go/... \
	golang.org/x/text/... golang.org/x/net/... crypto/x509 encoding/asn1 github.com/labstack/gommon/... github.com/ag-ui-protocol/...

build: ## build bin/aqueduct, one static program
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' $(COLD:%=-gcflags='%=-l') -o bin/aqueduct ./cmd/aqueduct
	@size=$$(wc -c < bin/aqueduct); if [ $$size -gt $(BINARY_MOST) ]; then echo "bin/aqueduct has $$size bytes, more than $(BINARY_MOST)" >&2; exit 1; fi

sbom: ## write bin/aqueduct.cdx.json, the modules that the program is made of (CycloneDX)
	@mkdir -p bin
	go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION) app -json -licenses -output bin/aqueduct.cdx.json -main cmd/aqueduct .

run: build ## build and start it with the demo agent on http://127.0.0.1:8080
	bin/aqueduct serve --demo

check: lint ## for the inner loop: lint and the unit tests on SQLite, without the race detector; "make test" decides
	go test -vet=off -short -timeout 5m ./server ./bridge ./acpgateway $$(go list ./... | grep -v '/test/')

# Faults and judges mostly wait, for leases to end and for pages, so they run beside each other, and the fuzz targets behind
# the first that ends. What they print comes a target at a time. Nothing runs beside the tests that measure time.
test: export AQUEDUCT_TEST_ALL := 1
test: setup lint vulncheck test-go ## install what is missing and run every test
	@$(MAKE) --no-print-directory -j2 --output-sync=target IS_SET_UP=1 test-faults test-judges fuzz
	@$(MAKE) --no-print-directory IS_SET_UP=1 test-timed

# What a target needs installed, unless it has been just now.
needs = $(if $(IS_SET_UP),,$(1))

# The race detector watches everything but modernc.org/sqlite/lib: SQLite translated from C, which
# is most of the work and has one owner per connection. That package holds no generic functions,
# whose one linked copy would be blind for all; the others of modernc.org do and are watched. The
# check of each pointer that the translation makes of a number costs a third and finds no race.
# "make lint" has vetted them. The packages that take longest come first, so that none of them is left to run alone.
# AQUEDUCT_TEST_LOSSY: the rooms' brokers lose half of their rings, so that what waits for one without asking again fails;
# "make check", the faults and the judges run with every ring.
# GOGC: the heaps of tests are small and memory is not scarce; collecting less often saves an eighth of the processors' time.
test-go: export AQUEDUCT_TEST_LOSSY := 1
test-go: export GOGC := 400
test-go: setup-postgres ## the Go tests, with the race detector where it can watch
	go test -vet=off -race -ldflags=-w -gcflags='modernc.org/...=-d=checkptr=0' -gcflags='modernc.org/sqlite/lib=-d=checkptr=0 -race=false' -count=1 -timeout 15m ./server ./bridge ./store/postgres ./acpgateway $$(go list ./... | grep -v '/test/')
	@scripts/test-unraced

# Tests of test/faults that compare what is slowed down with the same in a quiet moment of the same run.
TIMED := ^(TestFloodingSession|TestNextOfAnotherName|TestS27Abuse|TestSchemaOfAnAgentFreezesNobody|TestSlowReader|TestOneUserHoldsNobodyUp)$$

# Two tests at a time, of those that let others run beside them: they wait for leases to end and servers to come back.
test-faults: $(call needs,setup-postgres) ## the program killed, frozen, cut off and misled
	go test -vet=off -p 1 -count=1 -timeout 15m -skip '$(TIMED)' -v ./test/docker ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

test-timed: $(call needs,setup-postgres) ## the program flooded, abused and taken over: what that costs the others
	go test -vet=off -count=1 -timeout 10m -run '$(TIMED)' -v ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

# Two packages at a time: most of what they do is to wait for a page or an agent. What they time is a ratio, or a page's own work.
test-judges: $(call needs,setup-postgres setup-s3 setup-chromium setup-proxies setup-judges setup-oidc setup-agents setup-tdesign setup-chats setup-copilotkit setup-models setup-aguiagents setup-mcp setup-sdk) ## the program under clients of others, in browsers, behind proxies; with real agents; sdk/python, sdk/node, sdk/go
	go test -vet=off -p 2 -count=1 -timeout 20m -v ./test/blobs ./test/nodetest ./test/judges ./test/oidc ./test/chats ./test/agents ./test/goclients ./test/mcp ./test/models ./test/aguiagents ./test/doctor ./test/proxies ./test/sdk | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

test-agents: setup-judges setup-agents ## real ACP agents with a scripted model, behind our proxy and in the chat
	go test -count=1 -timeout 10m -v ./test/agents | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

test-sdk: setup-sdk ## sdk/python (with the system's python3), sdk/node and sdk/go: their examples behind the program, which call each other
	go test -count=1 -timeout 5m -v ./test/sdk | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

lint: ## gofmt and golangci-lint: .golangci.yml names what is off, and why
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed: $$unformatted" >&2; exit 1; fi
	@scripts/need-go-tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint $(GOLANGCI_LINT_VERSION)
	bin/tools/golangci-lint-$(GOLANGCI_LINT_VERSION) run --allow-parallel-runners ./...
	go vet -tags failpoints ./bridge/...

vulncheck: ## govulncheck, where its database can be reached
	@scripts/vulncheck $(GOVULNCHECK_VERSION)

house: ## count the code's form: sizes, comments, types, imports
	@go run ./scripts/house

house-check: ## the same, and fail where a count passes its limit
	@go run ./scripts/house -check

mutate: ## change the rooms that decide, one operator at a time: the tests must notice MUTATE_LEAST (85) percent
	@scripts/need-go-tool github.com/go-gremlins/gremlins/cmd/gremlins $(GREMLINS_VERSION)
	@scripts/mutate bin/tools/gremlins-$(GREMLINS_VERSION) $(MUTATE_LEAST)

fuzz: ## every fuzz target for FUZZTIME (2s)
	@scripts/fuzz $(FUZZTIME)

soak: setup-postgres setup-judges setup-sdk ## AQUEDUCT_RACES (10000) races for a question, AQUEDUCT_CHAOS (10m) of chaos, AQUEDUCT_AWAY (50) outages of the database of each kind, AQUEDUCT_MEMORY (1h) of steady load, AQUEDUCT_ABUSE (60s) of abuse, AQUEDUCT_ONE_USER (5s) of each way of one user to trouble others, AQUEDUCT_QUEUE (10000) queued prompts, on each database, AQUEDUCT_RESTART (20) approvals of each SDK over a restart, AQUEDUCT_FUZZ_STREAMS (20000), AQUEDUCT_PATCHES (10000)
	AQUEDUCT_RACES=$(AQUEDUCT_RACES) go test -count=1 -timeout 60m -v -run TestToolRaces ./bridge | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_CHAOS=$(AQUEDUCT_CHAOS) go test -count=1 -timeout 60m -v -run TestChaos ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_AWAY=$(AQUEDUCT_AWAY) go test -count=1 -timeout 60m -v -run 'TestDatabaseAway$$' ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_MEMORY=$(AQUEDUCT_MEMORY) go test -count=1 -timeout 120m -v -run 'TestMemoryLevelsOff$$' ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_ABUSE=$(AQUEDUCT_ABUSE) go test -count=1 -timeout 60m -v -run TestS27Abuse ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_ONE_USER=$(AQUEDUCT_ONE_USER) go test -count=1 -timeout 60m -v -run TestOneUserHoldsNobodyUp ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_QUEUE=$(AQUEDUCT_QUEUE) go test -count=1 -timeout 60m -v -run 'TestQueue$$' ./test/faults | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_RESTART=$(AQUEDUCT_RESTART) go test -count=1 -timeout 20m -v -run TestRestartKeepsApprovals ./test/sdk | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_PATCHES=$(AQUEDUCT_PATCHES) go test -count=1 -timeout 20m -v -run TestPatchesAgainstTheClients ./test/judges | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'
	AQUEDUCT_FUZZ_STREAMS=$(AQUEDUCT_FUZZ_STREAMS) go test -count=1 -timeout 120m -v -run TestFuzzStreams ./test/judges | grep -vE '^=== (RUN|PAUSE|CONT|NAME)'

bench: setup-postgres ## what keeping everything costs against a bare relay, then the small benchmarks
	go test -run '^$$' -bench 'Flood|ACP|Model|Size' -benchtime 1x -timeout 30m -v ./test/bench
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$(go list ./... | grep -v /test/)

setup: setup-postgres setup-s3 setup-chromium setup-proxies setup-judges setup-oidc setup-agents setup-tdesign setup-chats setup-copilotkit setup-models setup-aguiagents setup-mcp setup-sdk ## install what the tests need and is missing

setup-postgres: ## a PostgreSQL server, and a pooler before it
	@scripts/need-postgres
	@scripts/need-pgbouncer

setup-s3: ## an S3 server
	@scripts/need-go-tool github.com/versity/versitygw/cmd/versitygw $(VERSITYGW_VERSION)

setup-chromium: ## Chromium
	@scripts/need-chromium

setup-proxies: ## nginx and Caddy
	@scripts/need-nginx
	@scripts/need-caddy

setup-aguiagents: setup-copilotkit ## the npm packages of test/aguiagents: agents of others that speak AG-UI, and clients
	@scripts/need-npm test/aguiagents
	@scripts/need-npm test/aguiagents/strands

setup-models: ## the npm packages of test/models: SDKs for models
	@scripts/need-npm test/models

setup-mcp: ## the npm packages of test/mcp: MCP servers and clients
	@scripts/need-npm test/mcp

setup-judges: ## the npm packages of test/judges
	@scripts/need-npm test/judges

setup-oidc: ## the npm packages of test/oidc: an OpenID provider
	@scripts/need-npm test/oidc

setup-agents: ## the npm packages of test/agents: real ACP agents
	@scripts/need-npm test/agents

setup-tdesign: examples/tdesign/dist/index.html ## examples/tdesign, installed and built; examples/tdesign-vue, installed
	@scripts/need-npm examples/tdesign-vue

examples/tdesign/dist/index.html: examples/tdesign/package-lock.json examples/tdesign/vite.config.js examples/tdesign/index.html $(wildcard examples/tdesign/src/*)
	@scripts/need-npm examples/tdesign
	npm run build --prefix examples/tdesign --loglevel=error -- --logLevel warn

setup-chats: test/chats/dist/index.html ## test/chats, a page with assistant-ui, installed and built

test/chats/dist/index.html: test/chats/package-lock.json $(wildcard test/chats/page/*)
	@scripts/need-npm test/chats
	npm run build --prefix test/chats --loglevel=error -- --logLevel error

setup-copilotkit: examples/copilotkit/dist/index.html ## examples/copilotkit, installed and built

examples/copilotkit/dist/index.html: examples/copilotkit/package-lock.json examples/copilotkit/vite.config.js examples/copilotkit/index.html $(wildcard examples/copilotkit/src/*)
	@scripts/need-npm examples/copilotkit
	npm run build --prefix examples/copilotkit --loglevel=error -- --logLevel error

setup-sdk: sdk/node/dist/index.js ## sdk/node, installed and built

sdk/node/dist/index.js: sdk/node/package-lock.json sdk/node/tsconfig.json $(wildcard sdk/node/src/*)
	@scripts/need-npm sdk/node
	npm run build --prefix sdk/node --loglevel=error

clean: ## remove what was built
	rm -rf bin examples/tdesign/dist examples/copilotkit/dist test/chats/dist sdk/node/dist
