package main

import (
	"context"
	"errors"
	"os"
	"slices"

	keywork "github.com/keywork/keywork/sdk/go"
)

var handlers = []string{"", "wait", "complete", "throw", "burn", "deaf"}

// start makes the worker, and runs it as a user's program does.
func (p *program) start(command command) {
	if !slices.Contains(handlers, command.Handler) {
		refuse(command.Call, "UNSUPPORTED", "there is no such handler: "+command.Handler)
		return
	}
	options := keywork.WorkerOptions{
		Concurrency:  command.Concurrency,
		WorkerID:     command.WorkerID,
		OnEvent:      p.desk.telling(command.Handler),
		Interceptors: []keywork.Interceptor{p.tracing.Interceptor()},
	}
	for _, queue := range command.Queues {
		options.Queues = append(options.Queues, queue.Subscription)
	}
	if grace := command.ShutdownGraceMS; grace != nil {
		options.ShutdownGrace = milliseconds(*grace)
		if *grace == 0 {
			options.ShutdownGrace = keywork.NoGrace
		}
	}
	if command.Interceptors {
		options.Interceptors = append(options.Interceptors, intercept)
	}
	p.worker = keywork.NewWorker(p.client, p.desk.handler(command.Handler), options)
	go run(p.worker)
}

func intercept(ctx context.Context, job *keywork.Job, next keywork.Handler) error {
	emit("intercepted", fields{"what": "handler", "when": "before", "key": job.Key})
	defer emit("intercepted", fields{"what": "handler", "when": "after", "key": job.Key})
	return next(ctx, job)
}

// run runs the worker until a signal; the process ends with it.
func run(worker *keywork.Worker) {
	err := worker.Run(context.Background())
	if err == nil {
		emit("stopped", fields{"ok": true, "code": "", "message": ""})
		os.Exit(0)
	}
	emit("stopped", fields{"ok": false, "code": nameOf(err), "message": err.Error()})
	os.Exit(1)
}

func nameOf(err error) string {
	var refused *keywork.Error
	switch {
	case errors.As(err, &refused):
		return codeName(refused.Code())
	case errors.Is(err, keywork.ErrSuperseded):
		return "SUPERSEDED"
	case errors.Is(err, keywork.ErrForced):
		return "FORCED"
	default:
		return "INTERNAL"
	}
}

// telling writes the worker's events. For throughput nothing is written for each job.
func (d *desk) telling(usual string) func(keywork.Event) {
	return func(event keywork.Event) {
		switch event := event.(type) {
		case keywork.ConnectingEvent:
			sayState("connecting")
		case keywork.ReadyEvent:
			sayState("ready")
		case keywork.DegradedEvent:
			sayState("degraded")
		case keywork.DrainingEvent:
			sayState("draining")
		case keywork.StoppedEvent:
			sayState("stopped")
		case keywork.LeaseLostEvent:
			emit("lease_lost", fields{"queue": event.Queue, "key": event.Key, "reason": lostReason(event.Reason)})
		case keywork.SettledEvent:
			if usual != "complete" && !d.wasQuiet(event.FencingNumber) {
				emit("settled", fields{
					"key": event.Key, "job": event.JobID, "fencing": event.FencingNumber,
					"outcome": event.Outcome.String(),
				})
			}
		}
	}
}

func sayState(state string) { emit("state", fields{"state": state}) }

func lostReason(reason keywork.LostReason) string {
	if reason == keywork.LostReasonUnknown {
		return ""
	}
	return reason.String()
}
