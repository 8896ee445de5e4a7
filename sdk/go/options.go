package keywork

import (
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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

// ClientOptions are the options of a [Client]. The zero value is that of all defaults.
type ClientOptions struct {
	// Endpoints are the servers, such as "http://127.0.0.1:50051"; "https://" means TLS. With several, an outage of
	// one turns to the next. Default: [DefaultEndpoint].
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
	if len(o.Endpoints) == 0 {
		o.Endpoints = []string{DefaultEndpoint}
	}
	if o.SubmitDeadline <= 0 {
		o.SubmitDeadline = defaultSubmitDeadline
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	return o
}

// headers are the metadata as name, value, name, value.
func (o *ClientOptions) headers() []string {
	var headers []string
	for name, value := range o.Metadata {
		headers = append(headers, strings.ToLower(name), value)
	}
	return headers
}

func parseEndpoints(uris []string) ([]endpoint, *Error) {
	var endpoints []endpoint
	for _, uri := range uris {
		parsed, err := parseEndpoint(uri)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, parsed)
	}
	return endpoints, nil
}

func parseEndpoint(uri string) (endpoint, *Error) {
	parsed, err := url.Parse(uri)
	if err != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) || parsed.Hostname() == "" {
		const want = "write such as http://127.0.0.1:50051, or https:// for TLS"
		return endpoint{}, localError(codes.InvalidArgument, "failed to read the endpoint %q: %s", uri, want)
	}
	secure := parsed.Scheme == "https"
	port := parsed.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[secure]
	}
	target := "dns:///" + net.JoinHostPort(parsed.Hostname(), port)
	return endpoint{uri: uri, target: target, secure: secure}, nil
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
