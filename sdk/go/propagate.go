package keywork

import "context"

// Propagator carries a context from where a job is submitted to where it runs, in the job's attributes. Package
// keyworkotel has one for OpenTelemetry; anything else, such as a header of your own, takes two functions.
type Propagator struct {
	// Inject writes the context of a submit into the job's attributes.
	Inject func(ctx context.Context, attributes map[string]string)
	// Extract gives the handler's context, from the job's attributes.
	Extract func(ctx context.Context, attributes map[string]string) context.Context
}

// SubmitInterceptor is the half for [ClientOptions.SubmitInterceptors].
func (p Propagator) SubmitInterceptor() SubmitInterceptor {
	return func(ctx context.Context, submit *Submit) func(Submitted, error) {
		if submit.Attributes == nil {
			submit.Attributes = make(map[string]string)
		}
		p.Inject(ctx, submit.Attributes)
		return nil
	}
}

// Interceptor is the half for [WorkerOptions.Interceptors].
func (p Propagator) Interceptor() Interceptor {
	return func(ctx context.Context, job *Job, next Handler) error {
		return next(p.Extract(ctx, job.Attributes), job)
	}
}
