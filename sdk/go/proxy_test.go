package keywork_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

// proxy stands between a client and a server, and can go away.
type proxy struct {
	*testing.T
	address, to string
	listener    net.Listener
	running     sync.WaitGroup
	mu          sync.Mutex
	connections []net.Conn
}

func newProxy(t *testing.T, endpoint string) *proxy {
	p := &proxy{T: t, address: freeAddress(t), to: strings.TrimPrefix(endpoint, "http://")}
	p.begin()
	t.Cleanup(p.cut)
	return p
}

func (p *proxy) begin() {
	p.Helper()
	p.listener = must(net.Listen("tcp", p.address))(p.T)
	listener := p.listener
	p.running.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.connections = append(p.connections, outside)
			p.mu.Unlock()
			p.running.Go(func() { pipe(outside, p.to) })
		}
	})
}

// cut ends every connection, and makes none.
func (p *proxy) cut() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, connection := range p.connections {
		_ = connection.Close()
	}
	p.connections = nil
	p.mu.Unlock()
	p.running.Wait()
}

func TestAnIdleStreamOfSubmitsOutlivesAnOutage(t *testing.T) {
	scene := longLeases(t)
	proxy := newProxy(t, scene.server.Endpoint())
	client := impatient(t, "http://"+proxy.address)
	first := make(chan struct{})
	submits := func(yield func(keywork.Submit) bool) {
		if !yield(keywork.Submit{Queue: "q", Key: "before"}) {
			return
		}
		<-first
		proxy.cut()
		// Longer than a submit is tried: nothing was waiting.
		time.Sleep(2500 * time.Millisecond)
		proxy.begin()
		yield(keywork.Submit{Queue: "q", Key: "after"})
	}
	outcomes := make(map[int]keywork.SubmitOutcome)
	for place, result := range client.SubmitStream(t.Context(), submits) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		outcomes[place] = result.Outcome
		if place == 0 {
			close(first)
		}
	}
	equal(t, "before", outcomes[0], keywork.Created)
	equal(t, "after", outcomes[1], keywork.Created)
}

func TestACallThatIsNotAnsweredInTimeNamesItsServer(t *testing.T) {
	t.Parallel()
	// It takes connections, and never says anything.
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{"http://" + listener.Addr().String()}, CallTimeout: 200 * time.Millisecond,
	}))(t)
	defer client.Close()
	_, err := client.GetQueue(context.Background(), "q")
	late := errorOf(t, err)
	equal(t, "retryable", late.IsRetryable(), true)
	if !strings.Contains(late.Error(), "in time") {
		t.Fatalf("%v", late)
	}
}

func TestTheEnvironmentNamesTheServers(t *testing.T) {
	t.Setenv("KEYWORK_SERVER", " http://a:1, https://b ,")
	equal(t, "two", strings.Join(keywork.EndpointsFromEnv(), " "), "http://a:1 https://b")
	t.Setenv("KEYWORK_SERVER", "")
	equal(t, "none", strings.Join(keywork.EndpointsFromEnv(), " "), keywork.DefaultEndpoint)
}
