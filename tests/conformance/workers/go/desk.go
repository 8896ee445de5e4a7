package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	keywork "github.com/keywork/keywork/sdk/go"
)

// desk is where handlers wait until the runner says how they are to end.
type desk struct {
	mu      sync.Mutex
	waiting map[string][]*ticket
	// quiet are the leases of which nothing is written, by their fencing number.
	quiet map[uint64]bool
}

// ticket is one waiting handler's.
type ticket struct{ result chan error }

func newDesk() *desk {
	return &desk{waiting: make(map[string][]*ticket), quiet: make(map[uint64]bool)}
}

func (d *desk) wait(key string) *ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := &ticket{make(chan error, 1)}
	d.waiting[key] = append(d.waiting[key], waiting)
	return waiting
}

// leave takes a handler's ticket back.
func (d *desk) leave(key string, gone *ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, waiting := range d.waiting[key] {
		if waiting == gone {
			d.waiting[key] = append(d.waiting[key][:i:i], d.waiting[key][i+1:]...)
			return
		}
	}
}

// finish ends the oldest waiting handler of a key.
func (d *desk) finish(command command) {
	result, known := resultOf(command)
	if !known {
		refuse(command.Call, "UNSUPPORTED", "there is no such end: "+command.With)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.waiting[command.Key]
	if len(waiting) == 0 {
		refuse(command.Call, "NOT_WAITING", "no handler of this key waits")
		return
	}
	d.waiting[command.Key] = waiting[1:]
	waiting[0].result <- result
}

func resultOf(command command) (result error, known bool) {
	delay := milliseconds(command.DelayMS)
	switch command.With {
	case "complete", "":
		return nil, true
	case "error":
		return errors.New(command.Text), true
	case "retry":
		return keywork.Retry(delay).Because(errors.New(command.Text)), true
	case "fail":
		return keywork.Fail(command.Text), true
	case "release":
		return keywork.Release, true
	case "rerun":
		return keywork.Rerun(delay), true
	default:
		return nil, false
	}
}

func (d *desk) beQuiet(fencing uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quiet[fencing] = true
}

func (d *desk) wasQuiet(fencing uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	quiet := d.quiet[fencing]
	delete(d.quiet, fencing)
	return quiet
}

// handler is the one that `usual` names, or, for one job, its attribute.
func (d *desk) handler(usual string) keywork.Handler {
	return func(ctx context.Context, job *keywork.Job) error {
		chosen := usual
		if named := job.Attributes["handler"]; named != "" {
			chosen = named
		}
		switch chosen {
		case "complete":
			if usual != "complete" {
				d.beQuiet(job.FencingNumber)
			}
			return nil
		case "throw":
			sayStarted(ctx, job)
			panic("thrown")
		case "burn":
			sayStarted(ctx, job)
			burn(job)
			sayOf("ended", job, fields{})
			return nil
		default:
			return d.atTheDesk(ctx, job, chosen == "deaf")
		}
	}
}

func (d *desk) atTheDesk(ctx context.Context, job *keywork.Job, deaf bool) error {
	waiting := d.wait(job.Key)
	defer d.leave(job.Key, waiting)
	sayStarted(ctx, job)
	select {
	case result := <-waiting.result:
		sayOf("ended", job, fields{})
		return result
	case <-ctx.Done():
	}
	sayOf("cancelled", job, fields{"reason": reasonOf(context.Cause(ctx))})
	if !deaf {
		return errors.New("stopped before the end")
	}
	result := <-waiting.result
	sayOf("ended", job, fields{})
	return result
}

func reasonOf(cause error) string {
	switch {
	case errors.Is(cause, keywork.ErrLeaseLost):
		return "LEASE_LOST"
	case errors.Is(cause, keywork.ErrJobCancelled):
		return "JOB_CANCELLED"
	case errors.Is(cause, keywork.ErrWorkerShutdown):
		return "WORKER_SHUTDOWN"
	default:
		return cause.Error()
	}
}

func burn(job *keywork.Job) {
	duration, err := time.ParseDuration(job.Attributes["ms"] + "ms")
	if err != nil {
		return
	}
	for start := time.Now(); time.Since(start) < duration; {
	}
}

func sayStarted(ctx context.Context, job *keywork.Job) {
	attributes := job.Attributes
	if attributes == nil {
		attributes = map[string]string{}
	}
	sayOf("started", job, fields{
		"queue": job.Queue, "attempt": job.Attempt, "payload": string(job.Payload), "attributes": attributes,
		"left_ms":  time.Until(job.Deadline()).Milliseconds(),
		"trace_id": trace.SpanContextFromContext(ctx).TraceID().String(),
	})
}

func sayOf(event string, job *keywork.Job, members fields) {
	members["key"], members["job"], members["fencing"] = job.Key, job.ID, job.FencingNumber
	emit(event, members)
}
