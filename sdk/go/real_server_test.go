package keywork_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/google/uuid"

	keywork "github.com/keywork/keywork/sdk/go"
)

// What holds against the fake server holds against the real one. KEYWORK_BIN names its program; without it these tests
// are skipped, and `check` always sets it.

// realServer is a server in a process of its own, with a nats-server of its own.
type realServer struct {
	*testing.T
	bin, address, data string
	process            *exec.Cmd
}

func newRealServer(t *testing.T) *realServer {
	t.Helper()
	bin := os.Getenv("KEYWORK_BIN")
	if bin == "" {
		t.Skip("KEYWORK_BIN is not set")
	}
	s := &realServer{T: t, bin: bin, address: freeAddress(t), data: t.TempDir()}
	s.begin()
	t.Cleanup(s.end)
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// begin starts the process, and waits until it answers.
func (s *realServer) begin() {
	s.Helper()
	s.process = exec.Command(s.bin, "serve", "--listen", s.address, "--data-dir", s.data)
	logs := &lastLines{}
	s.process.Stdout, s.process.Stderr = logs, logs
	if err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
	client := s.client()
	deadline := time.Now().Add(patience)
	for {
		_, _, err := client.ListQueues(s.Context(), keywork.Page{Size: 1})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("the server does not answer: %v\n%s", err, logs)
		}
	}
}

// kill ends the process without warning.
func (s *realServer) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// end stops the process, and with it its nats-server.
func (s *realServer) end() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

func (s *realServer) client() *keywork.Client {
	client := keywork.MustClient("http://" + s.address)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// lastLines keeps what a process says, for the test that fails.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastLines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text...)
	return len(text), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// work runs a worker of the queue "q" until the test ends; it gives its events.
func (s *realServer) work(handler keywork.Handler, options keywork.WorkerOptions) (*running, *record[keywork.Event]) {
	s.Helper()
	events := newRecord[keywork.Event]()
	options.Queues, options.OnEvent, options.LeaveSignals = keywork.Queues("q"), events.add, true
	scene := &scene{T: s.T, events: events, gate: make(chan struct{})}
	return scene.run(keywork.NewWorker(s.client(), handler, options)), events
}

func settledKeys(events []keywork.Event) []string {
	var keys []string
	for _, event := range events {
		if settled, is := event.(keywork.SettledEvent); is && settled.Outcome == keywork.Settled {
			keys = append(keys, settled.Key)
		}
	}
	return keys
}

func TestRealJobsAreSubmittedRunAndSettled(t *testing.T) {
	t.Parallel()
	server := newRealServer(t)
	ctx, client := t.Context(), server.client()
	id := uuid.NewString()
	created := must(client.Submit(ctx, keywork.Submit{
		Queue: "q", Key: "a ü🎉", Payload: []byte("p"), Attributes: map[string]string{"n": "v"}, RequestID: id,
	}))(t)
	equal(t, "the outcome", created.Outcome, keywork.Created)
	again := must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a ü🎉", RequestID: id}))(t)
	equal(t, "the same request", again.Outcome, keywork.Duplicate)
	busy := must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a ü🎉"}))(t)
	equal(t, "another one", busy.Outcome, keywork.AlreadyOutstanding)
	for i, result := range client.SubmitMany(ctx, numbered(2_000)) {
		if result.Err != nil || result.Job.Key != fmt.Sprint("key-", i) {
			t.Fatalf("%d: %+v", i, result)
		}
	}
	seen := newRecord[keywork.Job]()
	running, events := server.work(func(_ context.Context, job *keywork.Job) error {
		if job.ID == id {
			seen.add(*job)
		}
		return nil
	}, keywork.WorkerOptions{Concurrency: 64})
	events.until(t, "all to be settled", func(events []keywork.Event) bool {
		return len(settledKeys(events)) == 2_001
	})
	job := seen.all()[0]
	equal(t, "the payload", string(job.Payload), "p")
	equal(t, "the attribute", job.Attributes["n"], "v")
	equal(t, "the attempt", job.Attempt, 1)
	// Settled means free.
	created = must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a ü🎉", Delay: time.Hour}))(t)
	equal(t, "the key again", created.Outcome, keywork.Created)
	running.drain()
	equal(t, "counts", running.worker.Counts(), keywork.Counts{Started: 2_001, Settled: 2_001, Sessions: 1})
}

func TestRealFailuresAreRetriedAndThenDeadLetters(t *testing.T) {
	t.Parallel()
	server := newRealServer(t)
	ctx, client := t.Context(), server.client()
	must(client.CreateQueue(ctx, "q", keywork.QueueConfig{
		Backoff: &keywork.Backoff{Initial: 10 * time.Millisecond, Max: 10 * time.Millisecond},
	}))(t)
	for _, key := range []string{"error", "fail", "panic"} {
		must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: key, MaxAttempts: 2}))(t)
	}
	running, events := server.work(func(_ context.Context, job *keywork.Job) error {
		switch job.Key {
		case "error":
			return errors.New("broke")
		case "fail":
			return keywork.Fail("no use")
		default:
			panic("oh no")
		}
	}, keywork.WorkerOptions{})
	events.until(t, "all attempts", func(events []keywork.Event) bool { return len(settledKeys(events)) == 5 })
	running.drain()
	reasons := make(map[string]string)
	for dead, err := range client.DeadJobs(ctx, "q", keywork.DeadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		reasons[dead.Job.Key] = dead.Reason.String() + " " + dead.Job.LastError
	}
	equal(t, "error", reasons["error"], "ATTEMPTS_EXHAUSTED broke")
	equal(t, "fail", reasons["fail"], "FAILED no use")
	equal(t, "panic", reasons["panic"], "ATTEMPTS_EXHAUSTED the handler panicked: oh no")
}

func TestRealLeasesAreExtendedAndOutliveAKilledServer(t *testing.T) {
	t.Parallel()
	server := newRealServer(t)
	ctx, client := t.Context(), server.client()
	must(client.CreateQueue(ctx, "q", keywork.QueueConfig{LeaseDuration: keywork.Set(10 * time.Second)}))(t)
	must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: "long"}))(t)
	started, gate := newRecord[int](), make(chan struct{})
	running, events := server.work(func(ctx context.Context, job *keywork.Job) error {
		started.add(job.Attempt)
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, keywork.WorkerOptions{})
	started.until(t, "the start", func(started []int) bool { return len(started) == 1 })
	server.kill()
	server.begin()
	events.until(t, "a second session", func(events []keywork.Event) bool {
		ready := slices.DeleteFunc(slices.Clone(events), func(event keywork.Event) bool {
			_, is := event.(keywork.ReadyEvent)
			return !is
		})
		return len(ready) == 2
	})
	close(gate)
	events.until(t, "the settlement", func(events []keywork.Event) bool { return len(settledKeys(events)) == 1 })
	equal(t, "runs", len(started.all()), 1)
	running.drain()
}

func TestRealRefusalsNameTheFieldAndTheReason(t *testing.T) {
	t.Parallel()
	server := newRealServer(t)
	ctx, client := t.Context(), server.client()
	_, err := client.Submit(ctx, keywork.Submit{Queue: "q", Key: strings.Repeat("k", 513)})
	refused := errorOf(t, err)
	equal(t, "the reason", refused.Reason(), keywork.ReasonInvalidField)
	equal(t, "the field", refused.Violations()[0].Field, "key")
	_, err = client.GetQueue(ctx, "none")
	equal(t, "an unknown queue", errorOf(t, err).Reason(), keywork.ReasonQueueNotFound)
	_, err = client.GetSchedule(ctx, "s")
	equal(t, "what is not served", errorOf(t, err).Code(), codes.Unimplemented)
	must(client.CreateQueue(ctx, "q", keywork.QueueConfig{}))(t)
	none := must(client.GetJob(ctx, "q", "free"))(t)
	equal(t, "a free key", none, nil)
	results := must(client.SubmitBatch(ctx, []keywork.Submit{{Queue: "q", Key: ""}, {Queue: "q", Key: "good"}}))(t)
	equal(t, "the bad one", errorOf(t, results[0].Err).Reason(), keywork.ReasonInvalidField)
	equal(t, "the good one", results[1].Outcome, keywork.Created)
	leased := must(client.Pull(ctx, keywork.Pull{Queue: "q", Wait: 5 * time.Second}))(t)
	extended := must(client.Heartbeat(ctx, leased[0].Token))(t)
	equal(t, "extended", extended[0].TimeLeft > 0, true)
	settled := must(client.Ack(ctx, keywork.Settlement{Token: extended[0].Token}))(t)
	equal(t, "settled", settled[0].Outcome, keywork.Settled)
}

// example is a program of examples/ that runs until it is stopped.
type example struct {
	*testing.T
	name    string
	process *exec.Cmd
	lines   *record[string]
	read    sync.WaitGroup
}

func startExample(t *testing.T, name string, server *realServer) *example {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if output, err := exec.Command("go", "build", "-o", program, "./examples/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
	e := &example{T: t, name: name, process: exec.Command(program), lines: newRecord[string]()}
	e.process.Env = append(os.Environ(), "KEYWORK_SERVER=http://"+server.address)
	output, err := e.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.process.Start(); err != nil {
		t.Fatal(err)
	}
	e.read.Go(func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			e.lines.add(lines.Text())
		}
	})
	return e
}

func (e *example) until(pattern string) {
	e.Helper()
	matches := regexp.MustCompile(pattern)
	e.lines.until(e.T, e.name+" to say "+pattern, func(lines []string) bool {
		return slices.ContainsFunc(lines, matches.MatchString)
	})
}

func (e *example) stop() {
	if err := e.process.Process.Signal(syscall.SIGTERM); err != nil {
		e.Fatal(err)
	}
}

// ends waits for the end of the program, and its exit code.
func (e *example) ends(code int) {
	e.Helper()
	e.read.Wait()
	_ = e.process.Wait()
	if got := e.process.ProcessState.ExitCode(); got != code {
		e.Fatalf("%s ended with %d:\n%s", e.name, got, strings.Join(e.lines.all(), "\n"))
	}
}

func TestTheExamplesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	server := newRealServer(t)
	ctx, client := t.Context(), server.client()

	testing := startExample(t, "testing", server)
	testing.until("all is well")
	testing.ends(0)

	batch := startExample(t, "batch_submit", server)
	batch.until("accepted 10000, busy 0, failed 0")
	batch.ends(0)

	must(client.Submit(ctx, keywork.Submit{Queue: "rebuild", Key: "tenant-3", Payload: []byte("2")}))(t)
	long := startExample(t, "long_job", server)
	long.until("tenant-3 step 1, fencing number [0-9]+")
	long.stop()
	long.ends(0)

	must(client.Submit(ctx, keywork.Submit{Queue: "sync", Key: "account-9"}))(t)
	graceful := startExample(t, "graceful_shutdown", server)
	graceful.until("started account-9")
	graceful.stop()
	graceful.until("keywork: draining")
	graceful.stop()
	graceful.ends(1)
	job := must(client.GetJob(ctx, "sync", "account-9"))(t)
	equal(t, "the attempt: none is lost", job.Attempt, 1)
}

func TestTheReadmesFirstProgramIsTheQuickstart(t *testing.T) {
	t.Parallel()
	readme := string(must(os.ReadFile("README.md"))(t))
	program := string(must(os.ReadFile("examples/quickstart/main.go"))(t))
	_, first, _ := strings.Cut(readme, "```go\n")
	first, _, _ = strings.Cut(first, "```")
	equal(t, "the first program", first, program)
	if lines := strings.Count(program, "\n"); lines > 20 {
		t.Fatalf("it has %d lines", lines)
	}
}
