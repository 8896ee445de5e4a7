package keywork

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// GetJob gives the outstanding job of a key, with its payload; nil when the key is free.
func (c *Client) GetJob(ctx context.Context, queue, key string) (*Job, error) {
	request := &keyworkv1.GetJobRequest{Queue: queue, Key: key}
	response, err := call(ctx, c.options.CallTimeout, request, c.work.GetJob)
	if err != nil && err.reason == ReasonJobNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return jobOf(response.GetJob()), nil
}

// Page is which part of a list is asked for. The zero value is the first page, of the server's size.
type Page struct {
	// Size is the most entries: 1 to 1,000. Default: 100.
	Size int
	// Token comes from the answer before. Default: from the start.
	Token string
}

func (p Page) check() *Error {
	var wrong faults
	wrong.number("page_size", p.Size, "from 1 to 1,000, or 0 for 100")
	return wrong.err()
}

// JobFilter chooses outstanding jobs of a queue.
type JobFilter struct {
	// KeyPrefix: only keys that begin so. Default: all.
	KeyPrefix string
}

// ListJobs gives a page of a queue's outstanding jobs, without payloads, and the token of the next page: empty where
// there is none.
func (c *Client) ListJobs(ctx context.Context, queue string, filter JobFilter, page Page) ([]*Job, string, error) {
	if err := page.check(); err != nil {
		return nil, "", err
	}
	request := &keyworkv1.ListJobsRequest{
		Queue: queue, KeyPrefix: filter.KeyPrefix, PageSize: uint32(page.Size), PageToken: page.Token,
	}
	response, err := once(ctx, c, request, c.work.ListJobs)
	return each(response.GetJobs(), jobOf), response.GetNextPageToken(), err
}

// Jobs gives all of a queue's outstanding jobs, page by page. An error ends it.
func (c *Client) Jobs(ctx context.Context, queue string, filter JobFilter) iter.Seq2[*Job, error] {
	return pages(func(page Page) ([]*Job, string, error) { return c.ListJobs(ctx, queue, filter, page) })
}

// CancelJob ends the outstanding job of a key, and gives that job. With a job id, only if it is that job.
func (c *Client) CancelJob(ctx context.Context, queue, key, jobID string) (*Job, error) {
	request := &keyworkv1.CancelJobRequest{Queue: queue, Key: key, JobId: jobID}
	response, err := once(ctx, c, request, c.work.CancelJob)
	if err != nil {
		return nil, err
	}
	return jobOf(response.GetJob()), nil
}

// WatchJobs gives jobs as their state changes: all of a queue, or those of one key. It ends with an error, when the
// loop is left, or when the server ends it.
func (c *Client) WatchJobs(ctx context.Context, queue, key string) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.work.WatchJobs(ctx, &keyworkv1.WatchJobsRequest{Queue: queue, Key: key})
		for err == nil {
			var message *keyworkv1.WatchJobsResponse
			if message, err = stream.Recv(); err != nil {
				break
			}
			for _, job := range message.GetJobs() {
				if !yield(jobOf(job), nil) {
					return
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
		case ctx.Err() != nil:
			yield(nil, ofContext(ctx, false))
		default:
			yield(nil, errorOf(err, answer{sent: true}))
		}
	}
}

// pages goes through a list page by page.
func pages[T any](list func(Page) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page := (Page{}); ; {
			entries, next, err := list(page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, entry := range entries {
				if !yield(entry, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			page.Token = next
		}
	}
}

// each converts a list.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, entry := range list {
		converted[i] = convert(entry)
	}
	return converted
}
