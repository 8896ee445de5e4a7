package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

var conflicts = map[string]keywork.OnConflict{
	"":        keywork.OnConflictReject,
	"REJECT":  keywork.OnConflictReject,
	"RERUN":   keywork.OnConflictRerun,
	"REPLACE": keywork.OnConflictReplace,
	"FAIL":    keywork.OnConflictFail,
}

func (p *program) submit(command command) {
	onConflict, known := conflicts[command.OnConflict]
	if !known {
		refuse(command.Call, "UNSUPPORTED", "there is no such on_conflict: "+command.OnConflict)
		return
	}
	submit := keywork.Submit{
		Queue: command.Queue, Key: command.Key, Payload: []byte(command.Payload), Attributes: command.Attributes,
		RequestID: command.RequestID, OnConflict: onConflict, Delay: milliseconds(command.DelayMS),
		MaxAttempts: command.MaxAttempts,
	}
	if command.ExpiresInMS > 0 {
		submit.ExpiresAt = time.Now().Add(milliseconds(command.ExpiresInMS))
	}
	submitted, err := p.client.Submit(within(command.Traceparent), submit)
	if err != nil {
		fault(command.Call, err)
		return
	}
	emit("submitted", fields{
		"call": command.Call, "outcome": submitted.Outcome.String(), "job": submitted.Job.ID,
		"state": submitted.Job.State.String(),
	})
}

func (p *program) submitMany(command command) {
	submits := make([]keywork.Submit, len(command.Keys))
	for i, key := range command.Keys {
		submits[i] = keywork.Submit{Queue: command.Queue, Key: key, Payload: []byte(command.Payload)}
	}
	outcomes := []string{}
	for _, result := range p.client.SubmitMany(context.Background(), submits) {
		outcomes = append(outcomes, outcomeOrReason(result))
	}
	emit("submitted_many", fields{"call": command.Call, "outcomes": outcomes})
}

func outcomeOrReason(result keywork.SubmitResult) string {
	var own *keywork.Error
	switch {
	case !errors.As(result.Err, &own):
		return result.Outcome.String()
	case own.Reason() != "":
		return string(own.Reason())
	default:
		return codeName(own.Code())
	}
}

func (p *program) throughput(command command) {
	payload := []byte(strings.Repeat("x", 256))
	submits := func(yield func(keywork.Submit) bool) {
		for number := range command.Jobs {
			key := fmt.Sprintf("%s-%d", command.Prefix, number)
			if !yield(keywork.Submit{Queue: command.Queue, Key: key, Payload: payload}) {
				return
			}
		}
	}
	begun, created := time.Now(), 0
	for _, result := range p.client.SubmitStream(context.Background(), submits) {
		if result.Outcome == keywork.Created {
			created++
		}
	}
	emit("submitted_many", fields{
		"call": command.Call, "created": created, "ms": time.Since(begun).Milliseconds(),
	})
}
