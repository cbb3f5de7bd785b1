package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"aqueduct/store/blob"
	"aqueduct/store/blob/s3"
)

const id = "0190f3a0-0000-7000-8000-0000000000ab"

// answering is a Store at a server that answers as the test wants, and how often it was asked. A real server is in
// test/blobs.
func answering(t *testing.T, answer http.HandlerFunc) (*s3.Store, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(web.Close)
	at := s3.Location{Bucket: "b", Prefix: "p/", Region: "eu-west-1", Endpoint: web.URL}
	return s3.New(at, s3.Credentials{AccessKey: "AKIDEXAMPLE", SecretKey: "hush-hush"}, web.Client()), &asked
}

func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>AKIDEXAMPLE hush-hush</Message></Error>`, code)
	}
}

// If this fails, a blob is taken for kept that is not, a fault that passes fails an upload, or a key gets into a log.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   http.HandlerFunc
		asked    int32
		notFound bool
		text     string
	}{
		"a burst":       {refuse(http.StatusServiceUnavailable, "SlowDown"), 3, false, "s3: status 503 SlowDown"},
		"too many":      {refuse(http.StatusTooManyRequests, ""), 3, false, "s3: status 429"},
		"a wrong key":   {refuse(http.StatusForbidden, "InvalidAccessKeyId"), 1, false, "s3: status 403 InvalidAccessKeyId"},
		"no object":     {refuse(http.StatusNotFound, "NoSuchKey"), 1, true, "s3: status 404 NoSuchKey"},
		"no bucket":     {refuse(http.StatusNotFound, "NoSuchBucket"), 1, false, "s3: status 404 NoSuchBucket"},
		"no user":       {refuse(http.StatusNotFound, "XAdminUserNotFound"), 1, false, "s3: status 404 XAdminUserNotFound"},
		"a page":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 400) }, 1, false, "s3: status 400"},
		"a long code":   {refuse(400, strings.Repeat("x", 999)), 1, false, "s3: status 400 " + strings.Repeat("x", 64)},
		"a broken line": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3, false, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, asked := answering(t, c.answer)
			_, err := s.Open(t.Context(), id, 3)
			if err == nil || errors.Is(err, blob.ErrNotFound) != c.notFound || !strings.Contains(err.Error(), c.text) || asked.Load() != c.asked {
				t.Errorf("opened: asked %d times, %v", asked.Load(), err)
			}
			if strings.Contains(fmt.Sprint(err), "hush") || strings.Contains(fmt.Sprint(err), "AKID") {
				t.Errorf("the error shows a key: %v", err)
			}
			if err := s.Put(t.Context(), id, []byte("abc")); err == nil {
				t.Error("written")
			}
			if err := s.Delete(t.Context(), id); (err == nil) != c.notFound {
				t.Errorf("deleted: %v", err)
			}
		})
	}
}

// A fault that passes is not seen, and every attempt sends the whole body, signed.
func TestAgain(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	s, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if string(body) != "abc" || err != nil || r.URL.Path != "/b/p/"+id || r.Header.Get("X-Amz-Content-Sha256") != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/s3/aws4_request") {
			t.Errorf("%s %q %v %v", r.URL, body, r.Header, err)
		}
		if n.Add(1) < 3 {
			refuse(http.StatusInternalServerError, "InternalError")(w, r)
		}
	})
	if err := s.Put(t.Context(), id, []byte("abc")); err != nil || n.Load() != 3 {
		t.Errorf("%d: %v", n.Load(), err)
	}
}

// If this fails, a download that broke off is handed on as a whole one.
func TestBrokenReads(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"the whole": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "abc") }, // it does not know ranges
		"another size": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "abcd")
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "ab")
			panic(http.ErrAbortHandler)
		},
	} {
		s, _ := answering(t, answer)
		from, err := s.Open(t.Context(), id, 3)
		if err == nil {
			_, err = io.ReadAll(from)
			_ = from.Close() // it was read
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseLocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3://b":                       "https://b.s3.us-east-1.amazonaws.com/",
		"s3://b/p/q/?region=eu-west-1": "https://b.s3.eu-west-1.amazonaws.com/p/q/",
		"s3://b/p?endpoint=http://127.0.0.1:9000/":    "http://127.0.0.1:9000/b/p/",
		"s3://b?endpoint=https://s3.example&region=x": "https://s3.example/b/",
		"": "", "s3://": "", "http://b": "", "s3://key:secret@b": "", "s3://b?endpoint=ftp://x": "",
		"s3://b?secret=hush": "", "s3://b#x": "", "s3://b?endpoint=http://u:hush@x": "", "s3://b?endpoint=x": "",
	} {
		at, err := s3.ParseLocation(text)
		if want == "" {
			if !errors.Is(err, s3.ErrLocation) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %+v %v", text, at, err)
			}
			continue
		}
		if err != nil || at.BaseURL() != want {
			t.Errorf("%s: %s, want %s: %v", text, at.BaseURL(), want, err)
		}
	}
}
