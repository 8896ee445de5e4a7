package keywork

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// journalRoom is how many entries wait to be written at most.
const journalRoom = 1_000

// journal is a worker's log. It is written by a goroutine of its own, so that a log that is slow, stuck or panics never
// holds up the one that keeps the leases alive: what finds no room is left out, and counted.
type journal struct {
	context context.Context
	to      slog.Handler
	entries chan slog.Record
	leftOut atomic.Uint64
	written chan struct{}
	outage  outage
}

func openJournal(ctx context.Context, options *WorkerOptions) *journal {
	j := &journal{
		context: ctx,
		to:      cmp.Or(options.Logger, slog.Default()).Handler(),
		entries: make(chan slog.Record, journalRoom),
		written: make(chan struct{}),
	}
	go j.writeAll(slog.String("worker_id", options.WorkerID))
	return j
}

// close writes what is left, unless that takes too long.
func (j *journal) close() {
	close(j.entries)
	waitFor(j.written, endsWithin)
}

func (j *journal) log(level slog.Level, message string, attributes ...slog.Attr) {
	entry := slog.NewRecord(time.Now(), level, "keywork: "+message, 0)
	entry.AddAttrs(attributes...)
	select {
	case j.entries <- entry:
	default:
		j.leftOut.Add(1)
	}
}

func (j *journal) writeAll(worker slog.Attr) {
	defer close(j.written)
	for entry := range j.entries {
		entry.AddAttrs(worker)
		j.write(entry)
		j.writeLeftOut(worker)
	}
	j.writeLeftOut(worker)
}

func (j *journal) writeLeftOut(worker slog.Attr) {
	leftOut := j.leftOut.Swap(0)
	if leftOut == 0 {
		return
	}
	entry := slog.NewRecord(time.Now(), slog.LevelWarn, "keywork: log entries were left out, the log is slow", 0)
	entry.AddAttrs(slog.Uint64("entries", leftOut), worker)
	j.write(entry)
}

// write writes one entry. What the program's log does wrong must not end the program.
func (j *journal) write(entry slog.Record) {
	defer func() { _ = recover() }()
	if j.to.Enabled(j.context, entry.Level) {
		_ = j.to.Handle(j.context, entry)
	}
}

// note writes what an event is to leave in the log. A settlement that counts leaves nothing, nor does the error that Run
// returns: whoever called it has it.
func (j *journal) note(event Event) {
	switch event := event.(type) {
	case ConnectingEvent:
		j.log(slog.LevelDebug, "connecting", slog.String("endpoint", event.Endpoint))
	case ReadyEvent:
		j.outage.isOver()
		j.log(slog.LevelInfo, "ready", slog.String("endpoint", event.Endpoint))
	case DegradedEvent:
		j.noteDegraded(event)
	case DrainingEvent:
		j.log(slog.LevelInfo, "draining")
	case StoppedEvent:
		j.noteStopped(event)
	case LeaseLostEvent:
		j.warnOf("lease lost", event.Queue, event.Key, slog.String("reason", lostBecause(event.Reason)))
	case SettlementRejectedEvent:
		j.warnOf("settlement rejected", event.Queue, event.Key, slog.String("error", event.Err.Error()))
	case HandlerIgnoresCancellationEvent:
		j.warnOf("handler ignores its cancellation", event.Queue, event.Key,
			slog.Duration("cancelled_for", event.CancelledFor))
	}
}

func (j *journal) noteDegraded(event DegradedEvent) {
	if !j.outage.isToBeWarnedOf(time.Now()) {
		return
	}
	j.log(slog.LevelWarn, "not connected, trying again",
		slog.String("endpoint", event.Endpoint), slog.String("error", event.Err.Error()))
}

// noteWaiting: a server that is there and does not answer, or whose packets are dropped, shows as an error only later.
func (j *journal) noteWaiting(endpoint string, since time.Duration) {
	if j.outage.isDue(time.Now()) {
		j.log(slog.LevelWarn, "not connected yet: the server does not answer",
			slog.String("endpoint", endpoint), slog.Duration("waiting", since))
	}
}

func (j *journal) noteStopped(event StoppedEvent) {
	level, message, attributes := slog.LevelInfo, "stopped", []slog.Attr(nil)
	if event.Abandoned > 0 {
		level, message = slog.LevelWarn, message+", handlers were left behind"
		attributes = append(attributes, slog.Int("handlers", event.Abandoned))
	}
	if event.Unconfirmed > 0 {
		level = slog.LevelWarn
		message += ", results were not confirmed: their jobs run again when their leases are over"
		attributes = append(attributes, slog.Int("unconfirmed", event.Unconfirmed))
	}
	j.log(level, message, attributes...)
}

// noteEnd writes of a handler's end what its owner must know: that it failed, or that its job is a dead letter.
func (j *journal) noteEnd(job *Job, outcome Outcome, stack []byte) {
	message := saidOfEnd(job, outcome)
	if message == "" {
		return
	}
	attributes := []slog.Attr{
		slog.Int("attempt", job.Attempt), slog.Int("max_attempts", job.MaxAttempts), slog.String("error", outcome.Error),
	}
	if len(stack) > 0 {
		attributes = append(attributes, slog.String("stack", string(stack)))
	}
	j.warnOf(message, job.Queue, job.Key, attributes...)
}

// saidOfEnd is empty where there is nothing to say.
func saidOfEnd(job *Job, outcome Outcome) string {
	last := job.MaxAttempts > 0 && job.Attempt >= job.MaxAttempts
	switch {
	case outcome.Kind == OutcomeFail:
		return "handler failed the job for good: it is a dead letter"
	case outcome.isFailure() && last:
		return "handler failed in the job's last attempt: it is a dead letter"
	case outcome.isFailure():
		return "handler failed: the job is tried again"
	case outcome.Kind == OutcomeRetry && last:
		return "handler asked for a retry in the job's last attempt: it is a dead letter"
	default:
		return ""
	}
}

func (j *journal) warnOf(message, queue, key string, more ...slog.Attr) {
	j.log(slog.LevelWarn, message, append([]slog.Attr{slog.String("queue", queue), slog.String("key", key)}, more...)...)
}

func lostBecause(reason LostReason) string {
	if reason == LostReasonUnknown {
		return "the worker could no longer be sure of it"
	}
	return reason.String()
}
