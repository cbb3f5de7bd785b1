package redact

import "bytes"

// Mask stands where a secret was. None of its bytes can continue a marker or a body, so masking a masked text changes
// nothing, and it needs no escape in JSON.
const Mask = "[redacted]"

// rule is one well-known form of a secret: a marker, which is shown, and a body, which is not.
type rule struct {
	marker string
	// member reports whether c belongs to the body; prev is the body's byte before it, 0 at its beginning.
	// The byte before is needed for two forms only: a PEM footer begins with two dashes, and in cookies a
	// space belongs to the value after a semicolon but not elsewhere.
	member func(prev, c byte) bool
	// secret reports whether the body so far is a secret, whatever follows.
	secret func(body []byte) bool
	// until is the byte that must end the body for it to be a secret; 0 for none.
	until byte
}

const (
	// longestUndecided bounds a body that may still become a secret, and so what a stream holds back of a message and
	// how often a byte is looked at. The header of a JWT is the longest thing that must be seen before it is known;
	// longestOther serves all others.
	longestUndecided = 512
	longestOther     = 128
	// pemMost bounds what is hidden after a PEM header that no footer follows: a key of 16384 bits has 13 KiB.
	pemMost = 16 << 10
)

// table is a set of bytes.
// A lookup costs one load a byte, where a switch over ranges would cost several branches; the scanner looks at every byte
// of every text that is kept.
type table [256]bool

// tableOf makes a table from pairs of first and last byte ("az09") and from single bytes.
func tableOf(ranges string, extra string) (t table) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
			t[c] = true
		}
	}
	for i := range len(extra) {
		t[extra[i]] = true
	}
	return t
}

var (
	alnum    = tableOf("azAZ09", "")
	word     = tableOf("azAZ09", "_")
	wordDash = tableOf("azAZ09", "_-")
	wordDots = tableOf("azAZ09", "_-.")
	upper    = tableOf("AZ09", "")
	token68  = tableOf("azAZ09", "-._~+/=")
	// value is what a header's or a variable's value is made of: no space, no quote, nothing that ends it in JSON, a
	// shell or a URL.
	value = tableOf("azAZ09", "-._~+/=!@#$%^*:|?")
	// userinfo is what the password in a URL is made of.
	userinfo = tableOf("azAZ09", "-._~+!$*=%^,;()")
	pem      = tableOf("azAZ09", "+/=,:-. \t\r\n\\")
)

// of is the member function of a body whose bytes do not depend on each other.
func of(t *table) func(prev, c byte) bool { return func(_, c byte) bool { return t[c] } }

func atLeast(n int) func([]byte) bool { return func(b []byte) bool { return len(b) >= n } }

// random is atLeast with a digit: words of prose have none.
func random(n int) func([]byte) bool {
	return func(b []byte) bool { return len(b) >= n && bytes.ContainsAny(b, "0123456789") }
}

// keys are the forms that a literal beginning tells.
// The lengths are those of the vendors' own keys, minus some: a key that a model cut short is still a secret. Where the
// marker is a usual beginning of words ("sk-" in "sk-learn-contrib-extras"), a digit must be among the bytes.
func keys() []*rule {
	var all []*rule
	add := func(t *table, secret func([]byte) bool, markers ...string) {
		for _, m := range markers {
			all = append(all, &rule{marker: m, member: of(t), secret: secret})
		}
	}
	add(&wordDash, random(20), "sk-", "rk-")
	add(&word, atLeast(16), "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_")
	add(&word, atLeast(20), "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "hf_", "gsk_", "lin_api_", "glsa_", "shpat_", "sbp_")
	add(&alnum, atLeast(30), "npm_", "r8_", "dop_v1_")
	add(&wordDash, atLeast(16), "glpat-", "nvapi-", "tvly-")
	add(&wordDash, atLeast(30), "AIza", "pypi-", "xai-")
	add(&upper, atLeast(16), "AKIA", "ASIA")
	add(&wordDash, atLeast(10), "xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-")
	add(&wordDots, atLeast(20), "SG.", "ya29.")
	add(&upper, atLeast(40), "AGE-SECRET-KEY-")
	add(&wordDash, atLeast(50), "run_") // the tokens that agents call this server with
	add(&token68, random(16), "Bearer ", "bearer ", "BEARER ")
	return append(all, jwt)
}

// A JWT has no vendor's marker. "eyJ" is {" in base64, with which each header begins; the dot tells it from other base64.
var jwt = &rule{marker: "eyJ", member: of(&wordDots), secret: isJWT}

// isJWT: a header of JSON in base64 and the beginning of what follows it.
func isJWT(b []byte) bool {
	dot := bytes.IndexByte(b, '.')
	return dot >= 8 && len(b) >= dot+9
}

// names are members, headers and variables whose value is a secret, in lower case.
var names = map[string]*rule{
	"authorization": header, "proxy-authorization": header, "cookie": cookies, "set-cookie": cookies,
	"x-api-key": named, "api-key": named, "api_key": named, "apikey": named, "x-auth-token": named, "x-aqueduct-page": named,
	"access_token": named, "accesstoken": named, "refresh_token": named, "refreshtoken": named,
	"client_secret": named, "clientsecret": named, "secret_access_key": named, "secretaccesskey": named, "aws_secret_access_key": named,
}

var (
	// named asks for a digit: "api_key: required" in a manual is not masked.
	named = &rule{member: of(&value), secret: random(12)}
	// header is the value of an Authorization header without a scheme, and credentials what follows one.
	header      = &rule{member: of(&value), secret: random(12)}
	credentials = &rule{member: of(&value), secret: atLeast(6)}
	schemes     = []string{"bearer ", "basic ", "token ", "apikey ", "digest ", "negotiate ", "aws4-hmac-sha256 "}
	// cookies are pairs behind each other: a space follows a semicolon only.
	cookies = &rule{
		member: func(prev, c byte) bool { return value[c] || c == ';' || c == ' ' && prev == ';' },
		secret: func(b []byte) bool { at := bytes.IndexByte(b, '='); return at > 0 && len(b) >= at+4 },
	}
	// A variable's value is masked without a digit as well when it is long: PASSWORD=correct-horse-battery is a secret, and
	// DEBUG_KEY=enabled is not.
	variable = &rule{member: of(&value), secret: func(b []byte) bool { return random(8)(b) || len(b) >= 16 }}
	// A password in a URL may be one byte long, since the @ behind it proves what it is.
	password = &rule{member: of(&userinfo), secret: atLeast(1), until: '@'}
	// Two dashes end the body: they begin the footer. Escapes are members because a key in JSON has \n for its line ends.
	pemKey = &rule{
		member: func(prev, c byte) bool { return pem[c] && (prev != '-' || c != '-') },
		secret: atLeast(24),
	}
)

// longestName bounds names, so that a long word costs no more than a short one.
const longestName = 48

// suffixes end the names of variables that hold secrets.
var suffixes = []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_PAT", "_CREDENTIAL", "_CREDENTIALS"}

// nameRule is the rule for the value of a name.
// A name is compared in lower case without allocating, since it is tried at every word that begins like one. Only names
// written wholly in upper case count as variables: "my_key" in prose or code would match the suffixes too often.
func nameRule(name []byte) *rule {
	var low [longestName]byte
	if len(name) > len(low) {
		return nil
	}
	shout := true
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		} else if c != '_' && (c < '0' || c > '9') {
			shout = false
		}
		low[i] = c
	}
	if r := names[string(low[:len(name)])]; r != nil {
		return r
	}
	// The suffix alone is no name: "_KEY=" has nothing before it.
	if shout {
		for _, s := range suffixes {
			if len(name) > len(s) && bytes.HasSuffix(name, []byte(s)) {
				return variable
			}
		}
	}
	return nil
}
