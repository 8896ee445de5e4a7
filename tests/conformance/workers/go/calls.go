package main

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

// arguments are what an RPC is told; each takes what it knows.
type arguments struct {
	Queue             string   `json:"queue"`
	Key               string   `json:"key"`
	Keys              []string `json:"keys"`
	LeaseDurationMS   *int64   `json:"lease_duration_ms"`
	MaxAttempts       *uint32  `json:"max_attempts"`
	MaxDepth          *uint64  `json:"max_depth"`
	DisconnectGraceMS *int64   `json:"disconnect_grace_ms"`
	BackoffMS         *int64   `json:"backoff_ms"`
	MaxJobs           int      `json:"max_jobs"`
	WaitMS            int64    `json:"wait_ms"`
	Tokens            []string `json:"tokens"`
	Token             string   `json:"token"`
	With              string   `json:"with"`
	DelayMS           int64    `json:"delay_ms"`
	Text              string   `json:"text"`
}

var errNoSuchCall = errors.New("there is no such call")

func (p *program) call(command command) {
	result, err := p.answer(context.Background(), command.RPC, command.Args)
	switch {
	case errors.Is(err, errNoSuchCall):
		refuse(command.Call, "UNSUPPORTED", err.Error())
	case err != nil:
		fault(command.Call, err)
	default:
		emit("answered", fields{"call": command.Call, "result": result})
	}
}

func (p *program) answer(ctx context.Context, rpc string, args arguments) (fields, error) {
	switch rpc {
	case "get_job":
		job, err := p.client.GetJob(ctx, args.Queue, args.Key)
		return ofJob(job), err
	case "list_jobs":
		jobs, err := collect(p.client.Jobs(ctx, args.Queue, keywork.JobFilter{}))
		return fields{"jobs": each(jobs, ofJob)}, err
	case "cancel_job":
		job, err := p.client.CancelJob(ctx, args.Queue, args.Key, "")
		return ofJob(job), err
	case "list_dead_jobs", "redrive_dead_jobs", "delete_dead_jobs":
		return p.deadJobs(ctx, rpc, args)
	case "pull", "heartbeat", "ack":
		return p.leases(ctx, rpc, args)
	default:
		return p.queues(ctx, rpc, args)
	}
}

func (p *program) queues(ctx context.Context, rpc string, args arguments) (fields, error) {
	switch rpc {
	case "create_queue":
		return ofQueue(p.client.CreateQueue(ctx, args.Queue, args.config()))
	case "update_queue":
		return ofQueue(p.client.UpdateQueue(ctx, args.Queue, args.config()))
	case "get_queue":
		return ofQueue(p.client.GetQueue(ctx, args.Queue))
	case "pause_queue":
		return ofQueue(p.client.PauseQueue(ctx, args.Queue))
	case "resume_queue":
		return ofQueue(p.client.ResumeQueue(ctx, args.Queue))
	case "delete_queue":
		return fields{}, p.client.DeleteQueue(ctx, args.Queue, true)
	case "purge_queue":
		purged, err := p.client.PurgeQueue(ctx, args.Queue)
		return fields{"purged": purged}, err
	case "list_queues":
		queues, err := collect(p.client.Queues(ctx))
		return fields{"queues": each(queues, describe)}, err
	default:
		return nil, errNoSuchCall
	}
}

func (p *program) deadJobs(ctx context.Context, rpc string, args arguments) (fields, error) {
	dead, err := collect(p.client.DeadJobs(ctx, args.Queue, keywork.DeadFilter{}))
	if err != nil || rpc == "list_dead_jobs" {
		return fields{"jobs": each(dead, func(dead *keywork.DeadJob) fields {
			return fields{"key": dead.Job.Key, "reason": dead.Reason.String()}
		})}, err
	}
	var ids []uint64
	for _, one := range dead {
		if slices.Contains(args.Keys, one.Job.Key) {
			ids = append(ids, one.DeadID)
		}
	}
	if rpc == "delete_dead_jobs" {
		deleted, err := p.client.DeleteDeadJobs(ctx, args.Queue, ids...)
		return fields{"deleted": deleted}, err
	}
	redriven, err := p.client.RedriveDeadJobs(ctx, args.Queue, ids...)
	return fields{"outcomes": each(redriven, func(one keywork.Redriven) string {
		return outcomeOrReason(one.SubmitResult)
	})}, err
}

func (p *program) leases(ctx context.Context, rpc string, args arguments) (fields, error) {
	switch rpc {
	case "pull":
		wait := milliseconds(args.WaitMS)
		if wait == 0 {
			wait = keywork.NoWait
		}
		leased, err := p.client.Pull(ctx, keywork.Pull{Queue: args.Queue, MaxJobs: args.MaxJobs, Wait: wait})
		return fields{"jobs": each(leased, ofLease)}, err
	case "heartbeat":
		extended, err := p.client.Heartbeat(ctx, each(args.Tokens, token)...)
		return ofExtensions(extended), err
	default:
		end, _ := resultOf(command{With: args.With, DelayMS: args.DelayMS, Text: args.Text})
		settlement := keywork.Settlement{Token: token(args.Token), Outcome: keywork.OutcomeOf(end)}
		results, err := p.client.Ack(ctx, settlement)
		if err != nil {
			return nil, err
		}
		return fields{"outcome": results[0].Outcome.String()}, nil
	}
}

func (a *arguments) config() keywork.QueueConfig {
	config := keywork.QueueConfig{
		LeaseDuration:   duration(a.LeaseDurationMS),
		MaxAttempts:     a.MaxAttempts,
		MaxDepth:        a.MaxDepth,
		DisconnectGrace: duration(a.DisconnectGraceMS),
	}
	if wait := duration(a.BackoffMS); wait != nil {
		config.Backoff = &keywork.Backoff{Initial: *wait, Max: *wait}
	}
	return config
}

func duration(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	return keywork.Set(milliseconds(*ms))
}

// token: one that is no Base64 is sent as the bytes that it is, for the server to refuse.
func token(text string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return []byte(text)
	}
	return decoded
}

func ofJob(job *keywork.Job) fields {
	if job == nil {
		return fields{"state": ""}
	}
	return fields{"key": job.Key, "id": job.ID, "state": job.State.String(), "attempt": job.Attempt}
}

func ofQueue(queue *keywork.Queue, err error) (fields, error) {
	if err != nil {
		return nil, err
	}
	return describe(queue), nil
}

func describe(queue *keywork.Queue) fields {
	described := fields{"queue": queue.Name, "paused": queue.Paused, "max_attempts": queue.Config.MaxAttempts}
	if lease := queue.Config.LeaseDuration; lease != nil {
		described["lease_duration_ms"] = lease.Milliseconds()
	}
	return described
}

func ofLease(lease keywork.Leased) fields {
	return fields{
		"key": lease.Job.Key, "token": base64.StdEncoding.EncodeToString(lease.Token),
		"fencing_number": lease.Job.FencingNumber, "attempt": lease.Job.Attempt,
	}
}

func ofExtensions(extensions []keywork.LeaseExtension) fields {
	renewed, lost := 0, 0
	for _, extension := range extensions {
		switch {
		case extension.Lost != keywork.LostReasonUnknown:
			lost++
		case !extension.TryAgain:
			renewed++
		}
	}
	return fields{"renewed": renewed, "lost": lost}
}

// collect gives all of a list, or its error.
func collect[T any](list func(func(T, error) bool)) (all []T, err error) {
	for entry, failed := range list {
		if failed != nil {
			return nil, failed
		}
		all = append(all, entry)
	}
	return all, nil
}

func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, entry := range list {
		converted[i] = convert(entry)
	}
	return converted
}
