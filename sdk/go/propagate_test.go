package keywork_test

import (
	"context"
	"testing"

	keywork "github.com/keywork/keywork/sdk/go"
)

func TestAPropagatorOfOnesOwnCarriesAContextFromSubmitToHandler(t *testing.T) {
	scene := longLeases(t)
	type tenant struct{}
	propagator := keywork.Propagator{
		Inject: func(ctx context.Context, attributes map[string]string) {
			attributes["tenant"] = ctx.Value(tenant{}).(string)
		},
		Extract: func(ctx context.Context, attributes map[string]string) context.Context {
			return context.WithValue(ctx, tenant{}, attributes["tenant"])
		},
	}
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints:          []string{scene.server.Endpoint()},
		SubmitInterceptors: []keywork.SubmitInterceptor{propagator.SubmitInterceptor()},
	}))(t)
	t.Cleanup(func() { _ = client.Close() })
	ctx := context.WithValue(t.Context(), tenant{}, "acme")
	must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a"}))(t)
	tenants := newRecord[any]()
	options := scene.options()
	options.Interceptors = []keywork.Interceptor{propagator.Interceptor()}
	running := scene.run(keywork.NewWorker(client, func(ctx context.Context, _ *keywork.Job) error {
		tenants.add(ctx.Value(tenant{}))
		return nil
	}, options))
	found := tenants.until(t, "the handler", func(tenants []any) bool { return len(tenants) == 1 })
	equal(t, "the tenant", found[0], any("acme"))
	running.drain()
}
