//go:build unix

// Measures the figures of the README: go run ./internal/bench, with KEYWORK_BIN naming the server's program (a release
// build) and nats-server on the path. It starts servers of its own, on 127.0.0.1, and stops them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

var (
	jobs        = flag.Int("jobs", 100_000, "jobs of the throughput run")
	concurrency = flag.Int("concurrency", 2_048, "handlers at once in the throughput run")
	rounds      = flag.Int("rounds", 3, "throughput runs")
)

func main() {
	flag.Parse()
	server := start()
	defer server.stop()
	for range *rounds {
		server.throughput()
	}
	server.leaseLost()
	server.drain()
	server.memory()
	server.reconnect()
}

type server struct {
	bin, address, data string
	process            *exec.Cmd
	client             *keywork.Client
	queues             int
}

func start() *server {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s := &server{bin: os.Getenv("KEYWORK_BIN"), address: listener.Addr().String()}
	s.data = must(os.MkdirTemp("", "keywork-bench"))
	check(listener.Close())
	s.begin()
	s.client = keywork.MustClient("http://" + s.address)
	for {
		if _, _, err := s.client.ListQueues(context.Background(), keywork.Page{}); err == nil {
			return s
		}
	}
}

func (s *server) begin() {
	s.process = exec.Command(s.bin, "serve", "--listen", s.address, "--data-dir", s.data, "--log", "error")
	check(s.process.Start())
}

func (s *server) stop() {
	check(s.process.Process.Signal(syscall.SIGTERM))
	_ = s.process.Wait()
	check(os.RemoveAll(s.data))
}

// queue makes a queue of its own for each measurement.
func (s *server) queue() string {
	s.queues++
	name := fmt.Sprint("bench-", s.queues)
	must(s.client.CreateQueue(context.Background(), name, keywork.QueueConfig{}))
	return name
}

func (s *server) submit(queue string, count int) time.Duration {
	payload := make([]byte, 256)
	submits := func(yield func(keywork.Submit) bool) {
		for i := range count {
			if !yield(keywork.Submit{Queue: queue, Key: fmt.Sprint("key-", i), Payload: payload}) {
				return
			}
		}
	}
	begun := time.Now()
	for i, result := range s.client.SubmitStream(context.Background(), submits) {
		if result.Err != nil {
			log.Fatalf("submit %d: %v", i, result.Err)
		}
	}
	return time.Since(begun)
}

// worker is one that runs, and a bell for each of its events.
type worker struct {
	*keywork.Worker
	events chan keywork.Event
	ended  chan error
}

func (s *server) work(queue string, concurrency int, handler keywork.Handler) *worker {
	w := &worker{events: make(chan keywork.Event, 100_000), ended: make(chan error, 1)}
	w.Worker = keywork.NewWorker(s.client, handler, keywork.WorkerOptions{
		Queues: keywork.Queues(queue), Concurrency: concurrency, LeaveSignals: true,
		OnEvent: func(event keywork.Event) {
			if _, settled := event.(keywork.SettledEvent); !settled {
				w.events <- event
			}
		},
	})
	go func() { w.ended <- w.Run(context.Background()) }()
	return w
}

func (w *worker) ready() {
	for event := range w.events {
		if _, is := event.(keywork.ReadyEvent); is {
			return
		}
	}
}

func (w *worker) drain() {
	w.Drain()
	check(<-w.ended)
}

func (s *server) throughput() {
	queue := s.queue()
	submitted := s.submit(queue, *jobs)
	before := cpuTime()
	begun := time.Now()
	w := s.work(queue, *concurrency, func(context.Context, *keywork.Job) error { return nil })
	for w.Counts().Settled < uint64(*jobs) {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begun)
	cpu := cpuTime() - before
	w.drain()
	fmt.Printf("jobs/s: %.0f (concurrency %d, %d jobs that wait; %.1f us of CPU a job in the worker)\n",
		rate(*jobs, took), *concurrency, *jobs, float64(cpu.Microseconds())/float64(*jobs))
	fmt.Printf("submits/s: %.0f\n", rate(*jobs, submitted))
}

func (s *server) leaseLost() {
	queue := s.queue()
	s.submit(queue, 1)
	started, cancelled := make(chan struct{}), make(chan time.Time)
	w := s.work(queue, 1, func(ctx context.Context, _ *keywork.Job) error {
		close(started)
		<-ctx.Done()
		cancelled <- time.Now()
		return context.Cause(ctx)
	})
	<-started
	begun := time.Now()
	must(s.client.PurgeQueue(context.Background(), queue))
	fmt.Printf("lease lost to context cancelled: %v\n", (<-cancelled).Sub(begun))
	w.drain()
}

func (s *server) drain() {
	queue := s.queue()
	s.submit(queue, 100)
	var running atomic.Int32
	gate := make(chan struct{})
	w := s.work(queue, 100, func(context.Context, *keywork.Job) error {
		running.Add(1)
		<-gate
		return nil
	})
	for running.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	w.Drain()
	close(gate)
	check(<-w.ended)
	fmt.Printf("drain with 100 jobs that end at once: %v\n", time.Since(begun))
}

func (s *server) memory() {
	const held = 1_000
	queue := s.queue()
	s.submit(queue, held)
	var running atomic.Int32
	before := heap()
	gate := make(chan struct{})
	w := s.work(queue, held, func(context.Context, *keywork.Job) error {
		running.Add(1)
		<-gate
		return nil
	})
	for running.Load() < held {
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("memory for 1,000 held leases: %.1f MB of heap and stacks\n", float64(heap()-before)/1e6)
	close(gate)
	w.drain()
}

func (s *server) reconnect() {
	queue := s.queue()
	w := s.work(queue, 1, func(context.Context, *keywork.Job) error { return nil })
	w.ready()
	check(s.process.Process.Kill())
	_ = s.process.Wait()
	s.begin()
	for {
		if connection, err := net.Dial("tcp", s.address); err == nil {
			check(connection.Close())
			break
		}
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	w.ready()
	fmt.Printf("reconnect after a killed server listens again: %v\n", time.Since(begun))
	w.drain()
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse + stats.StackInuse
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func rate(count int, took time.Duration) float64 { return float64(count) / took.Seconds() }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
