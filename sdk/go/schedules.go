package keywork

import (
	"context"
	"iter"
	"time"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Schedule is one recurring submit.
type Schedule struct {
	// Name is its name.
	Name string
	// Expression is "@every 30s", or six cron fields: second, minute, hour, day of month, month, day of week.
	Expression string
	// TimeZone is the IANA time zone of a cron expression. Default: UTC.
	TimeZone string
	// Submit is what to submit each time. Its RequestID must be empty.
	Submit Submit
	// NextAt is when it fires next, in answers.
	NextAt time.Time
}

func (s *Schedule) wire() *keyworkv1.Schedule {
	return &keyworkv1.Schedule{
		Name: s.Name, Expression: s.Expression, TimeZone: s.TimeZone, Submit: s.Submit.wire(),
	}
}

func scheduleOf(wire *keyworkv1.Schedule) *Schedule {
	return &Schedule{
		Name:       wire.GetName(),
		Expression: wire.GetExpression(),
		TimeZone:   wire.GetTimeZone(),
		Submit:     submitOf(wire.GetSubmit()),
		NextAt:     toTime(wire.GetNextAt()),
	}
}

func submitOf(wire *keyworkv1.SubmitRequest) Submit {
	submit := Submit{
		Queue:       wire.GetQueue(),
		Key:         wire.GetKey(),
		Payload:     wire.GetPayload(),
		ContentType: wire.GetContentType(),
		Attributes:  wire.GetAttributes(),
		RequestID:   wire.GetRequestId(),
		OnConflict:  OnConflict(max(wire.GetOnConflict()-keyworkv1.OnConflict_ON_CONFLICT_REJECT, 0)),
		Delay:       toDuration(wire.GetDelay()),
		StartAt:     toTime(wire.GetStartAt()),
		ExpiresAt:   toTime(wire.GetExpiresAt()),
		MaxAttempts: int(wire.GetMaxAttempts()),
	}
	if backoff := wire.GetBackoff(); backoff != nil {
		submit.Backoff = &Backoff{toDuration(backoff.GetInitial()), toDuration(backoff.GetMax())}
	}
	return submit
}

// holdsSchedule is an answer with a schedule in it.
type holdsSchedule interface{ GetSchedule() *keyworkv1.Schedule }

func scheduleIn(response holdsSchedule, err error) (*Schedule, error) {
	if err != nil {
		return nil, err
	}
	return scheduleOf(response.GetSchedule()), nil
}

// PutSchedule makes or replaces a schedule.
func (c *Client) PutSchedule(ctx context.Context, schedule Schedule) (*Schedule, error) {
	if err := schedule.Submit.check(); err != nil {
		return nil, err
	}
	request := &keyworkv1.PutScheduleRequest{Schedule: schedule.wire()}
	return scheduleIn(once(ctx, c, request, c.schedules.PutSchedule))
}

// GetSchedule gives one schedule.
func (c *Client) GetSchedule(ctx context.Context, name string) (*Schedule, error) {
	return scheduleIn(once(ctx, c, &keyworkv1.GetScheduleRequest{Name: name}, c.schedules.GetSchedule))
}

// ListSchedules gives a page of all schedules, by name, and the token of the next page: empty where there is none.
func (c *Client) ListSchedules(ctx context.Context, page Page) ([]*Schedule, string, error) {
	if err := page.check(); err != nil {
		return nil, "", err
	}
	request := &keyworkv1.ListSchedulesRequest{PageSize: uint32(page.Size), PageToken: page.Token}
	response, err := once(ctx, c, request, c.schedules.ListSchedules)
	return each(response.GetSchedules(), scheduleOf), response.GetNextPageToken(), err
}

// Schedules gives all schedules, by name, page by page. An error ends it.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*Schedule, error] {
	return pages(func(page Page) ([]*Schedule, string, error) { return c.ListSchedules(ctx, page) })
}

// DeleteSchedule ends a schedule. Jobs that it submitted stay.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := once(ctx, c, &keyworkv1.DeleteScheduleRequest{Name: name}, c.schedules.DeleteSchedule)
	return err
}
