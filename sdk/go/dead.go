package keywork

import (
	"context"
	"iter"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// DeadFilter chooses dead letters of a queue.
type DeadFilter struct {
	// Key: only this one. Default: all.
	Key string
}

// ListDeadJobs gives a page of a queue's dead letters, oldest first, and the token of the next page: empty where there
// is none.
func (c *Client) ListDeadJobs(
	ctx context.Context, queue string, filter DeadFilter, page Page,
) ([]*DeadJob, string, error) {
	if err := page.check(); err != nil {
		return nil, "", err
	}
	request := &keyworkv1.ListDeadJobsRequest{
		Queue: queue, Key: filter.Key, PageSize: uint32(page.Size), PageToken: page.Token,
	}
	response, err := once(ctx, c, request, c.work.ListDeadJobs)
	return each(response.GetJobs(), deadJobOf), response.GetNextPageToken(), err
}

// DeadJobs gives all of a queue's dead letters, oldest first, page by page. An error ends it.
func (c *Client) DeadJobs(ctx context.Context, queue string, filter DeadFilter) iter.Seq2[*DeadJob, error] {
	return pages(func(page Page) ([]*DeadJob, string, error) { return c.ListDeadJobs(ctx, queue, filter, page) })
}

// Redriven is how one redrive ended.
type Redriven struct {
	// DeadID names the dead letter.
	DeadID uint64
	// SubmitResult is [Created] when the job runs again and the dead letter is gone, and [AlreadyOutstanding] when the
	// key is busy and the dead letter stays.
	SubmitResult
}

// RedriveDeadJobs submits these dead letters again, at most 1,000, with attempts counted from 1. Repeating it is safe:
// one that was redriven is no dead letter any more. Without ids nothing is redriven, and no server is asked.
func (c *Client) RedriveDeadJobs(ctx context.Context, queue string, deadIDs ...uint64) ([]Redriven, error) {
	if len(deadIDs) == 0 {
		return nil, nil
	}
	return c.redrive(ctx, &keyworkv1.RedriveDeadJobsRequest{Queue: queue, DeadIds: deadIDs})
}

// RedriveOldestDeadJobs submits the oldest dead letters again: at most so many, 1 to 1,000.
func (c *Client) RedriveOldestDeadJobs(ctx context.Context, queue string, most int) ([]Redriven, error) {
	const bounds = "from 1 to 1,000"
	var wrong faults
	wrong.number("max_jobs", most, bounds)
	// On the wire it is what stands for the server's default.
	if most == 0 {
		wrong.add("max_jobs", "must be %s, not 0", bounds)
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return c.redrive(ctx, &keyworkv1.RedriveDeadJobsRequest{Queue: queue, MaxJobs: uint32(most)})
}

func (c *Client) redrive(ctx context.Context, request *keyworkv1.RedriveDeadJobsRequest) ([]Redriven, error) {
	response, err := once(ctx, c, request, c.work.RedriveDeadJobs)
	return each(response.GetResults(), redrivenOf), err
}

func redrivenOf(wire *keyworkv1.RedriveResult) Redriven {
	var plain offer
	return Redriven{wire.GetDeadId(), plain.endAsResult(plain.readItem(wire.GetResult()))}
}

// DeleteDeadJobs deletes these dead letters for good, at most 1,000; it tells how many there were.
func (c *Client) DeleteDeadJobs(ctx context.Context, queue string, deadIDs ...uint64) (uint64, error) {
	if len(deadIDs) == 0 {
		return 0, nil
	}
	request := &keyworkv1.DeleteDeadJobsRequest{Queue: queue, DeadIds: deadIDs}
	response, err := once(ctx, c, request, c.work.DeleteDeadJobs)
	return response.GetDeleted(), err
}

// DeleteAllDeadJobs deletes all dead letters of a queue for good; it tells how many there were.
func (c *Client) DeleteAllDeadJobs(ctx context.Context, queue string) (uint64, error) {
	request := &keyworkv1.DeleteDeadJobsRequest{Queue: queue, All: true}
	response, err := once(ctx, c, request, c.work.DeleteDeadJobs)
	return response.GetDeleted(), err
}
