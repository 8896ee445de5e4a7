package keywork

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// streamWindow is what a server may send ahead of our reading a stream.
	streamWindow = 4 << 20
	// connectionWindow bounds a connection. A small one, with many unread streams, stalls it.
	connectionWindow = 16 << 20
	// messageBytes is the largest message taken: a delivery of a thousand jobs with payloads is large.
	messageBytes   = 256 << 20
	connectTimeout = 5 * time.Second
	pingEvery      = 10 * time.Second
	pingTimeout    = 5 * time.Second
)

// dial makes a connection that connects when it is first used: all settings of the transport in one place.
func dial(to endpoint, options *ClientOptions) (*grpc.ClientConn, *Error) {
	settings := []grpc.DialOption{
		grpc.WithTransportCredentials(to.credentials(options.TLS)),
		grpc.WithUserAgent("keywork-go/" + Version),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageBytes), grpc.MaxCallSendMsgSize(messageBytes),
		),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true,
		}),
		// Who calls waits between tries by itself.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: connectTimeout,
		}),
	}
	conn, err := grpc.NewClient(to.target, append(settings, options.DialOptions...)...)
	if err != nil {
		// Everything else was checked when the client was made.
		var wrong faults
		wrong.add("DialOptions", "must make a channel to %s: %v", to.uri, err)
		return nil, wrong.err()
	}
	return conn, nil
}

// ofConnection makes the transport's error, where it made no connection, one that names the server and says why, once.
func ofConnection(to endpoint, err error) error {
	st := status.Convert(err)
	quoted, isOfConnection := strings.CutPrefix(st.Message(), "connection error: desc = ")
	if st.Code() != codes.Unavailable || !isOfConnection && !strings.HasPrefix(st.Message(), "name resolver error: ") {
		return err
	}
	why, unquoted := strconv.Unquote(quoted)
	if unquoted != nil {
		why = quoted
	}
	why = strings.TrimPrefix(strings.TrimPrefix(why, "transport: "), "Error while dialing: ")
	if strings.Contains(why, "server preface") && !to.secure {
		why += " (is this Keywork, and without TLS?)"
	}
	return status.Errorf(st.Code(), "failed to connect to %s: %s", to.uri, why)
}
