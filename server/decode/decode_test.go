package decode

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// body is what the tests' route takes.
type body struct {
	Name  string   `json:"name" validate:"required,max=5"`
	Count int      `json:"count"`
	Tags  []string `json:"tags"`
	Inner struct {
		On   bool            `json:"on"`
		Kind string          `json:"kind" validate:"omitempty,oneof=run user"`
		Any  json.RawMessage `json:"any" validate:"max=5"`
	} `json:"inner"`
	paging
}

// paging is embedded: clients see its members as the body's own.
type paging struct {
	Limit int `json:"limit" validate:"gte=0,lte=200"`
}

func decoder(l limit.Limits) *Decoder {
	meter := limit.NewMeter(prometheus.NewRegistry())
	l = l.WithDefaults()
	return New(l, limit.NewBodyBudget(l, func() {}), limit.NewBrakes(l, meter))
}

func posted(text string) echo.Context {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
	return echo.New().NewContext(r, httptest.NewRecorder())
}

// refusal is the code and the detail of an error; "" for none.
func refusal(err error) (code, detail string) {
	if err == nil {
		return "", ""
	}
	p := problem.Of(err)
	return p.Code, p.Detail
}

// If this fails, a client cannot find its mistake, or two readers of one body understand different things.
func TestJSON(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{Body: 4096})
	for text, want := range map[string]struct{ code, detail string }{
		`{"name":"a"}`:                        {},
		` {"name":"a","unknown":[1]} `:        {},
		`{"name":"a","count":1,"tags":["x"]}`: {},
		``:                                    {problem.InvalidBody, ""},
		`[]`:                                  {problem.InvalidBody, "The body must be an object."},
		`"x"`:                                 {problem.InvalidBody, "The body must be an object."},
		`null`:                                {problem.InvalidBody, "The body must be an object."},
		`{"name":"a"`:                         {problem.InvalidBody, ""},
		`{"name":"a"}{}`:                      {problem.InvalidBody, ""},
		`{}`:                                  {problem.InvalidBody, "name: required."},
		`{"name":"abcdef"}`:                   {problem.InvalidBody, "name: must be at most 5 characters."},
		`{"name":"a","inner":{"kind":"x"}}`:   {problem.InvalidBody, "inner.kind: must be one of run, user."},
		`{"name":"a","inner":{"any":"abcd"}}`: {problem.InvalidBody, "inner.any: must be at most 5 bytes."},
		`{"name":"a","limit":201}`:            {problem.InvalidBody, "limit: must be at most 200."},
		`{"name":"a","limit":-1}`:             {problem.InvalidBody, "limit: must be at least 0."},
		`{"name":7}`:                          {problem.InvalidBody, "At /name: must be a string."},
		`{"name":"a","count":"1"}`:            {problem.InvalidBody, "At /count: must be a number."},
		`{"name":"a","tags":"x"}`:             {problem.InvalidBody, "At /tags: must be an array."},
		`{"name":"a","inner":1}`:              {problem.InvalidBody, "At /inner: must be an object."},
		`{"name":"a","inner":{"on":1}}`:       {problem.InvalidBody, "At /inner/on: must be a boolean."},
		`{"Name":"a"}`:                        {problem.AmbiguousMember, "/name: names are case-sensitive, and stand once."},
		`{"name":"a","NAME":"b"}`:             {problem.AmbiguousMember, "/name: names are case-sensitive, and stand once."},
		`{"name":"a","name":"b"}`:             {problem.InvalidBody, "At /name: duplicate key."},
		strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat(`}`, 600): {problem.InvalidBody, ""},
		`{"name":"` + strings.Repeat("x", 5000) + `"}`:                {problem.TooLarge, "The body may have 4096 bytes."},
	} {
		var b body
		code, detail := refusal(in.JSON(posted(text), &b))
		if code != want.code || want.detail != "" && detail != want.detail {
			t.Errorf("%.60s: %s %q, want %s %q", text, code, detail, want.code, want.detail)
		}
	}
}

// If this fails, a sender that showed no credential makes the server read megabytes.
func TestSmallJSONIsSmall(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{})
	var b body
	if code, _ := refusal(in.SmallJSON(posted(`{"name":"a","pad":"`+strings.Repeat("x", limit.SmallBody-64)+`"}`), &b)); code != "" {
		t.Errorf("a body within the bound: %s", code)
	}
	if code, _ := refusal(in.SmallJSON(posted(`{"name":"a","pad":"`+strings.Repeat("x", limit.SmallBody)+`"}`), &b)); code != problem.TooLarge {
		t.Errorf("a body beyond the bound: %q", code)
	}
}

// If this fails, a body loses its end where the buffer grows, or the budget is never given back.
func TestBodyIsReadWhole(t *testing.T) {
	t.Parallel()
	l := limit.Limits{Body: 1 << 16}
	in := decoder(l)
	for _, n := range []int{0, 1, 511, 512, 513, limit.SmallBody - 1, limit.SmallBody, limit.SmallBody + 1, 1 << 16} {
		for _, announced := range []bool{true, false} {
			text := strings.Repeat("abcdefg", n/7+1)[:n]
			c := posted(text)
			if !announced {
				c.Request().ContentLength = -1
			}
			got, err := in.Body(c)
			if err != nil || string(got) != text {
				t.Errorf("of %d bytes %d are read, announced %v: %v", n, len(got), announced, err)
			}
			ReleaseBody(c)
		}
	}
	c := posted(strings.Repeat("x", 1<<16+1))
	c.Request().ContentLength = -1
	if _, err := in.Body(c); problem.Of(err).Code != problem.TooLarge {
		t.Errorf("one byte too many, not announced: %v", err)
	}
	ReleaseBody(c)
	ReleaseBody(posted("")) // one that holds nothing
}

// broken is a body whose connection breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) {
	return 0, errors.New("read tcp 10.0.0.1:99: connection reset")
}

// If this fails, a client gets addresses of the inner network in place of a sentence.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", broken{})
	_, err := decoder(limit.Limits{}).Body(echo.New().NewContext(r, httptest.NewRecorder()))
	if code, detail := refusal(err); code != problem.InvalidBody || detail != "The body could not be read." {
		t.Errorf("refused with %s %q", code, detail)
	}
}

// If this fails, a refused message to a socket, a channel or the queue leaves open which member is wrong.
func TestMessageNamesItsMember(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{})
	for text, want := range map[string]string{
		`{"name":"a"}`:             "",
		`{"name":"a","tags":"x"}`:  "At /tags: must be an array.",
		`{"name":"a","limit":"x"}`: "At /limit: must be a number.",
		`{"name":"a","name":"b"}`:  "At /name: duplicate key.",
		`[]`:                       "The message is not an object of its type.",
	} {
		var b body
		if _, detail := refusal(in.Message([]byte(text), &b)); detail != want {
			t.Errorf("%s: %q, want %q", text, detail, want)
		}
	}
}

// If this fails, a wrong query is taken for another one, such as the first page of a list.
func TestQuery(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{})
	for query, want := range map[string]struct{ code, detail string }{
		"":                {},
		"limit=7":         {},
		"limit=7&other=x": {},
		"limit=x":         {problem.InvalidQuery, "limit: must be a number."},
		"limit=101":       {problem.InvalidQuery, "limit: must be at most 100."},
		"limit=%zz":       {problem.InvalidQuery, ""},
		"a;b":             {problem.InvalidQuery, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		var q struct {
			Limit int `query:"limit" validate:"max=100"`
		}
		code, detail := refusal(in.Query(echo.New().NewContext(r, httptest.NewRecorder()), &q))
		if code != want.code || want.detail != "" && detail != want.detail {
			t.Errorf("?%s: %s %q, want %s", query, code, detail, want.code)
		}
		if strings.HasPrefix(query, "limit=7") && q.Limit != 7 {
			t.Errorf("?%s is read as %d", query, q.Limit)
		}
	}
}

// If this fails, an id from the path gets into a log line or a frame with a newline in it, or a % in an id is lost.
func TestPathID(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/a": "a", "/a%20b": "a b", "/a%2Fb": "a/b", "/100%25": "100%", "/%E4%BC%9A": "会",
		"/a%0Ab": "", "/%00": "", "/%20a": "", "/" + strings.Repeat("x", 129): "",
	} {
		e := echo.New()
		var id string
		var err error
		e.GET("/:id", func(c echo.Context) error { id, err = PathID(c, "id"); return nil })
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		if id != want || (err == nil) != (want != "") {
			t.Errorf("%s is read as %q, %v", path, id, err)
		}
		if err != nil && problem.Of(err).Code != problem.InvalidID {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// If this fails, one bad message over a socket is answered as a fault of the server.
func TestMessage(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{})
	for text, want := range map[string]string{
		`{"name":"a"}`: "", `{"name":"a","x":1}`: "", `{}`: problem.InvalidBody, `{`: problem.InvalidBody, `7`: problem.InvalidBody,
		`{"NAME":"a"}`: problem.AmbiguousMember, ``: problem.InvalidBody,
	} {
		var b body
		if code, _ := refusal(in.Message([]byte(text), &b)); code != want {
			t.Errorf("%s: %q, want %q", text, code, want)
		}
	}
	if code, _ := refusal(in.Message(nil, &body{})); code != problem.TooLarge {
		t.Errorf("a message that was too large: %q", code)
	}
}

// If this fails, a secret can be guessed without a limit, or a user who mistyped once is locked out.
func TestRefusedCredentialsAreCounted(t *testing.T) {
	t.Parallel()
	in := decoder(limit.Limits{Failures: limit.Rate{PerSecond: 0.001, Burst: 2}})
	code := func(err error) string { c, _ := refusal(in.Refused(posted(""), err)); return c }
	for range 5 { // none of these is a guess
		if got := code(nil) + code(auth.ErrNoCredential) + code(auth.ErrIssuer); got != problem.Unauthorized+problem.Issuer {
			t.Fatalf("what is no guess gives %q", got)
		}
	}
	for i, want := range []string{problem.Unauthorized, problem.Unauthorized, problem.TooManyTries} {
		if got := code(auth.ErrBadCredential); got != want {
			t.Errorf("bad credential %d gives %q, want %q", i+1, got, want)
		}
	}
	if p := problem.Of(in.Failed(posted(""), auth.ErrBadCredential)); p.RetryAfter < time.Second {
		t.Errorf("the client may try again after %v", p.RetryAfter)
	}
}

// If this fails, a limit on one kind of action stops another.
func TestEachActionHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	once := limit.Rate{PerSecond: 0.001, Burst: 1}
	in := decoder(limit.Limits{Runs: once, Decisions: once, Invokes: once})
	who := store.Principal{Tenant: "t", User: "ann"}
	for name, may := range map[string]func(echo.Context, store.Principal) error{"run": in.MayRun, "decide": in.MayDecide, "invoke": in.MayInvoke} {
		if err := may(posted(""), who); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if code, _ := refusal(may(posted(""), who)); code != limit.TooManyRequests {
			t.Errorf("%s, once too often: %q", name, code)
		}
	}
	if err := in.Known(posted("")); err != nil {
		t.Errorf("a connection without a limit: %v", err)
	}
}
