package keywork_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// Every reason that docs/errors.md lists is a constant, and an error of it answers as the table says.

var reasons = []keywork.Reason{
	keywork.ReasonInvalidField, keywork.ReasonQueueNotFound, keywork.ReasonJobNotFound, keywork.ReasonDeadJobNotFound,
	keywork.ReasonKeyBusy, keywork.ReasonQueueExists, keywork.ReasonQueueNotEmpty, keywork.ReasonQueueDrifted,
	keywork.ReasonQueueFull, keywork.ReasonStorageFull, keywork.ReasonNATSUnavailable, keywork.ReasonNATSNoAnswer,
	keywork.ReasonNATSRefused, keywork.ReasonServerDraining, keywork.ReasonNotServedYet, keywork.ReasonHelloMissing,
	keywork.ReasonHelloLate, keywork.ReasonSessionSilent, keywork.ReasonSessionNotReading,
	keywork.ReasonSessionSuperseded, keywork.ReasonSessionSentAway,
}

// documented is one row of the table.
type documented struct {
	reason                   keywork.Reason
	code                     codes.Code
	retry                    time.Duration
	retryable, noSideEffects bool
}

func table(t *testing.T) []documented {
	t.Helper()
	text := string(must(os.ReadFile("../../docs/errors.md"))(t))
	row := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([A-Z_]+) \\| ([a-z0-9]+) \\| (none|unknown) \\|")
	var rows []documented
	for _, cells := range row.FindAllStringSubmatch(text, -1) {
		// Only those with a time are times.
		retry, _ := time.ParseDuration(cells[3])
		rows = append(rows, documented{
			reason:        keywork.Reason(cells[1]),
			code:          codes.Code(code.Code_value[cells[2]]),
			retry:         retry,
			retryable:     cells[3] != "no",
			noSideEffects: cells[4] == "none",
		})
	}
	return rows
}

func TestEveryReasonAnswersAsItsDocumentationSays(t *testing.T) {
	scene := longLeases(t)
	rows := table(t)
	equal(t, "reasons", len(rows), len(reasons))
	for i, row := range rows {
		equal(t, "the constant", reasons[i], row.reason)
		refusal := keyworktest.RefusalOf(row.code, row.reason, "text")
		if row.retry > 0 {
			refusal = must(refusal.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(row.retry)}))(t)
		}
		scene.faults(keyworktest.Refused(refusal))
		results := must(scene.client.SubmitBatch(t.Context(), []keywork.Submit{{Queue: "q", Key: "k"}}))(t)
		item := errorOf(t, results[0].Err)
		equal(t, "an item: "+string(row.reason), item.Reason(), row.reason)
		equal(t, "an item's code", item.Code(), row.code)
		if row.code != codes.Unavailable {
			scene.faults(keyworktest.Refused(refusal))
			_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "k"})
			answers(t, errorOf(t, err), row)
		}
	}
}

// answers checks what an error says of itself against its row.
func answers(t *testing.T, err *keywork.Error, row documented) {
	t.Helper()
	equal(t, "the reason", err.Reason(), row.reason)
	equal(t, "the code", err.Code(), row.code)
	equal(t, string(row.reason)+": retryable", err.IsRetryable(), row.retryable)
	equal(t, string(row.reason)+": no side effects", err.HasNoSideEffects(), row.noSideEffects)
	equal(t, string(row.reason)+": retry after", err.RetryAfter(), row.retry)
}

func TestAnOutageAnswersAsItsDocumentationSays(t *testing.T) {
	scene := longLeases(t)
	for _, row := range table(t) {
		if row.code != codes.Unavailable {
			continue
		}
		scene.faults(keyworktest.Refused(awayForLong(t, row.reason)))
		_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "k"})
		row.retry = time.Hour
		answers(t, errorOf(t, err), row)
	}
}

// awayForLong is an outage that is not worth another try before any deadline.
func awayForLong(t *testing.T, reason keywork.Reason) *status.Status {
	t.Helper()
	refusal := keyworktest.RefusalOf(codes.Unavailable, reason, "text")
	return must(refusal.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}))(t)
}

func TestTheReasonOfAnErrorCanBeAskedForAlone(t *testing.T) {
	scene := longLeases(t)
	_, err := scene.client.GetQueue(t.Context(), "none")
	equal(t, "wrapped", keywork.ReasonOf(fmt.Errorf("failed: %w", err)), keywork.ReasonQueueNotFound)
	equal(t, "another error", keywork.ReasonOf(errors.New("another")), "")
	equal(t, "none", keywork.ReasonOf(nil), "")
}

func TestAnErrorNamesItsReasonAndItsFields(t *testing.T) {
	scene := longLeases(t)
	plain := status.New(codes.InvalidArgument, "refused")
	refusal := must(plain.WithDetails(
		&errdetails.ErrorInfo{Domain: "keywork.dev", Reason: "INVALID_FIELD"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "key", Description: "too long"}, {Field: "queue", Description: "too short"},
		}},
	))(t)
	scene.faults(keyworktest.Refused(refusal))
	_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "k"})
	equal(t, "the text", err.Error(), "refused [INVALID_FIELD]; key: too long; queue: too short")
	equal(t, "violations", len(errorOf(t, err).Violations()), 2)
	equal(t, "the message alone", errorOf(t, err).Message(), "refused")
	if strings.Contains(errorOf(t, err).GRPCStatus().String(), "OK") {
		t.Fatal("the status is lost")
	}
}
