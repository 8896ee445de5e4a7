package keywork

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// DefaultEndpoint is the server of a client that is told none.
const DefaultEndpoint = "http://127.0.0.1:50051"

// EndpointsFromEnv are the servers that the environment variable KEYWORK_SERVER names, with commas between them; without
// it, [DefaultEndpoint].
func EndpointsFromEnv() []string {
	var endpoints []string
	for server := range strings.SplitSeq(os.Getenv("KEYWORK_SERVER"), ",") {
		if server = strings.TrimSpace(server); server != "" {
			endpoints = append(endpoints, server)
		}
	}
	if len(endpoints) == 0 {
		return []string{DefaultEndpoint}
	}
	return endpoints
}

const (
	defaultSubmitDeadline = 30 * time.Second
	defaultCallTimeout    = 10 * time.Second
)

// ClientOptions are the options of a [Client]. The zero value is that of all defaults. What is out of its bounds is
// refused by [NewClient], never changed.
type ClientOptions struct {
	// Endpoints are the servers, such as "http://127.0.0.1:50051"; "https://" means TLS. With several, an outage of
	// one turns to the next. Default, where it is nil: [DefaultEndpoint].
	Endpoints []string
	// Metadata is sent with every call, such as "authorization".
	Metadata map[string]string
	// TLS is for "https://" endpoints. Default: the operating system's roots.
	TLS *tls.Config
	// SubmitDeadline is how long a submit is tried, with the same RequestID, while servers are away. Default: 30 s.
	SubmitDeadline time.Duration
	// CallTimeout is how long one try of a call may take before it counts as unanswered. Default: 10 s.
	CallTimeout time.Duration
	// SubmitInterceptors are told of every submit, the first one first.
	SubmitInterceptors []SubmitInterceptor
	// Logger is where it warns that submits are tried again: at the first failure, and then at most every 30 s. A
	// worker has a Logger of its own. Default: [slog.Default].
	Logger *slog.Logger
	// DialOptions are added to those of every connection.
	DialOptions []grpc.DialOption
}

// endpoint is a server, checked.
type endpoint struct {
	uri    string
	target string
	secure bool
}

func (o ClientOptions) withDefaults() ClientOptions {
	if o.Endpoints == nil {
		o.Endpoints = []string{DefaultEndpoint}
	}
	o.SubmitDeadline = cmp.Or(o.SubmitDeadline, defaultSubmitDeadline)
	o.CallTimeout = cmp.Or(o.CallTimeout, defaultCallTimeout)
	return o
}

// check finds what the options have wrong, and reads the endpoints.
func (o *ClientOptions) check() ([]endpoint, *Error) {
	var wrong faults
	endpoints := wrong.endpoints(o.Endpoints)
	wrong.limit("SubmitDeadline", o.SubmitDeadline, defaultSubmitDeadline)
	wrong.limit("CallTimeout", o.CallTimeout, defaultCallTimeout)
	isSecure := func(e endpoint) bool { return e.secure }
	if o.TLS != nil && len(wrong) == 0 && !slices.ContainsFunc(endpoints, isSecure) {
		wrong.add("TLS", "is of no use without an https:// endpoint")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Metadata)) {
		wrong.metadata(name, o.Metadata[name])
	}
	for i, intercept := range o.SubmitInterceptors {
		if intercept == nil {
			wrong.add(fmt.Sprintf("SubmitInterceptors[%d]", i), "must not be nil")
		}
	}
	return endpoints, wrong.err()
}

// metadataNames are what HTTP/2 takes; names are written in lower case.
var metadataNames = regexp.MustCompile(`^[0-9A-Za-z_.-]+$`)

// metadata: the transport would refuse it at every call, with the word of a server that is broken. A value may be a
// secret: it is not repeated.
func (f *faults) metadata(name, value string) {
	isUnprintable := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case !metadataNames.MatchString(name):
		f.add("Metadata", "names must be of letters, digits and _-., not %q", name)
	case !strings.HasSuffix(strings.ToLower(name), "-bin") && strings.ContainsFunc(value, isUnprintable):
		f.add("Metadata", "the value of %q must be printable ASCII", name)
	}
}

// headers are the metadata as name, value, name, value.
func (o *ClientOptions) headers() []string {
	var headers []string
	for name, value := range o.Metadata {
		headers = append(headers, strings.ToLower(name), value)
	}
	return headers
}

func (f *faults) endpoints(uris []string) []endpoint {
	if len(uris) == 0 {
		f.add("Endpoints", "must name at least one server, or be nil for %s", DefaultEndpoint)
	}
	var endpoints []endpoint
	for i, uri := range uris {
		parsed, err := url.Parse(uri)
		if err == nil && parsed.User != nil {
			// It is not repeated: it may hold a password.
			f.add(fmt.Sprintf("Endpoints[%d]", i), "must not name a user: what servers are to know goes into Metadata")
			continue
		}
		if err != nil || !isEndpoint(parsed) {
			const want = "must be such as http://127.0.0.1:50051, or https:// for TLS, not %q"
			f.add(fmt.Sprintf("Endpoints[%d]", i), want, uri)
			continue
		}
		endpoints = append(endpoints, endpointOf(uri, parsed))
	}
	return endpoints
}

// isEndpoint: a scheme, a host, and perhaps a port. What else may stand in a URI would mean nothing here.
func isEndpoint(uri *url.URL) bool {
	if port := uri.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return false
		}
	}
	isPlain := strings.Trim(uri.Path, "/") == "" && uri.RawQuery == "" && uri.Fragment == ""
	return slices.Contains([]string{"http", "https"}, uri.Scheme) && uri.Hostname() != "" && isPlain
}

func endpointOf(uri string, parsed *url.URL) endpoint {
	secure := parsed.Scheme == "https"
	port := parsed.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[secure]
	}
	target := "dns:///" + net.JoinHostPort(parsed.Hostname(), port)
	return endpoint{uri: uri, target: target, secure: secure}
}

func (e endpoint) credentials(config *tls.Config) credentials.TransportCredentials {
	if !e.secure {
		return insecure.NewCredentials()
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return credentials.NewTLS(config)
}
