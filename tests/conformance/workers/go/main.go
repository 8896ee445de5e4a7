// The worker-under-test of the Go SDK: it does what the runner says, with nothing of its own between the runner and the
// SDK's public API. ../../README.md is its protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkotel"
)

// longestLine of a command: its payload may be as large as a queue takes.
const longestLine = 64 << 20

func main() {
	sayHello()
	if len(os.Args) > 1 && os.Args[1] == "--list-capabilities" {
		return
	}
	provider := sdktrace.NewTracerProvider()
	program := &program{
		desk:    newDesk(),
		tracing: keyworkotel.New(keyworkotel.Options{TracerProvider: provider}),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		program.follow(lines.Bytes())
	}
}

func sayHello() {
	emit("hello", fields{
		"sdk": "go", "version": keywork.Version, "runtime": runtime.Version(),
		"capabilities": []string{
			"worker", "submit", "submit_many", "call", "burn", "settled_event", "signals", "interceptors", "trace",
		},
	})
}

// command has the members of all commands.
type command struct {
	Do   string `json:"do"`
	Call string `json:"call"`

	// connect
	Endpoints        []string `json:"endpoints"`
	SubmitDeadlineMS int64    `json:"submit_deadline_ms"`
	CallTimeoutMS    int64    `json:"call_timeout_ms"`
	Interceptors     bool     `json:"interceptors"`

	// start
	Queues          []subscription `json:"queues"`
	Concurrency     int            `json:"concurrency"`
	WorkerID        string         `json:"worker_id"`
	ShutdownGraceMS *int64         `json:"shutdown_grace_ms"`
	Handler         string         `json:"handler"`

	// submit, submit_many, finish
	Queue       string            `json:"queue"`
	Key         string            `json:"key"`
	Keys        []string          `json:"keys"`
	Payload     string            `json:"payload"`
	Attributes  map[string]string `json:"attributes"`
	RequestID   string            `json:"request_id"`
	OnConflict  string            `json:"on_conflict"`
	DelayMS     int64             `json:"delay_ms"`
	ExpiresInMS int64             `json:"expires_in_ms"`
	MaxAttempts int               `json:"max_attempts"`
	Traceparent string            `json:"traceparent"`
	With        string            `json:"with"`
	Text        string            `json:"text"`

	// call, throughput
	RPC    string    `json:"rpc"`
	Args   arguments `json:"args"`
	Jobs   int       `json:"jobs"`
	Prefix string    `json:"prefix"`
}

// subscription is a queue's name, or a name with a weight.
type subscription struct{ keywork.Subscription }

func (s *subscription) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.Queue) == nil {
		return nil
	}
	weighted := struct {
		Queue  string `json:"queue"`
		Weight int    `json:"weight"`
	}{}
	err := json.Unmarshal(data, &weighted)
	s.Queue, s.Weight = weighted.Queue, weighted.Weight
	return err
}

// program is what the commands act on.
type program struct {
	desk    *desk
	tracing *keyworkotel.Tracing
	client  *keywork.Client
	worker  *keywork.Worker
}

// follow does what one line says. Nothing is waited for.
func (p *program) follow(line []byte) {
	var command command
	if err := json.Unmarshal(line, &command); err != nil {
		refuse(command.Call, "UNSUPPORTED", err.Error())
		return
	}
	if p.client == nil && command.Do != "connect" && command.Do != "exit" {
		refuse(command.Call, "UNSUPPORTED", "connect comes first")
		return
	}
	switch command.Do {
	case "connect":
		p.connect(command)
	case "start":
		p.start(command)
	case "submit":
		go p.submit(command)
	case "submit_many":
		go p.submitMany(command)
	case "throughput":
		go p.throughput(command)
	case "call":
		go p.call(command)
	case "finish":
		p.desk.finish(command)
	case "exit":
		os.Exit(0)
	default:
		p.tellWorker(command)
	}
}

// tellWorker follows a command that needs a worker.
func (p *program) tellWorker(command command) {
	if p.worker == nil {
		refuse(command.Call, "UNSUPPORTED", "there is no worker, or no such command: "+command.Do)
		return
	}
	switch command.Do {
	case "drain":
		p.worker.Drain()
	case "release_all":
		p.worker.ReleaseAll()
	case "healthy":
		emit("healthy", fields{"call": command.Call, "value": p.worker.Healthy()})
	case "stats":
		counts := p.worker.Counts()
		emit("stats", fields{
			"call": command.Call, "started": counts.Started, "settled": counts.Settled,
			"leases_lost": counts.LeasesLost, "dropped_results": counts.DroppedResults, "sessions": counts.Sessions,
		})
	default:
		refuse(command.Call, "UNSUPPORTED", "there is no such command: "+command.Do)
	}
}

func (p *program) connect(command command) {
	options := keywork.ClientOptions{
		Endpoints:          command.Endpoints,
		SubmitDeadline:     milliseconds(command.SubmitDeadlineMS),
		CallTimeout:        milliseconds(command.CallTimeoutMS),
		SubmitInterceptors: []keywork.SubmitInterceptor{p.tracing.SubmitInterceptor()},
	}
	if command.Interceptors {
		options.SubmitInterceptors = append(options.SubmitInterceptors, sayIntercepted)
	}
	client, err := keywork.NewClient(options)
	if err != nil {
		fault(command.Call, err)
		return
	}
	p.client = client
	emit("connected", fields{"call": command.Call})
}

func sayIntercepted(_ context.Context, submit *keywork.Submit) func(keywork.Submitted, error) {
	key := submit.Key
	emit("intercepted", fields{"what": "submit", "when": "before", "key": key})
	return func(keywork.Submitted, error) {
		emit("intercepted", fields{"what": "submit", "when": "after", "key": key})
	}
}

// within is the context in which a submit is made.
func within(traceparent string) context.Context {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
