/**
 * Traces that go on from a submit to the handler. It needs {@code io.opentelemetry:opentelemetry-api}, which this SDK
 * depends on optionally; nothing else of the SDK does. For another tracer, write a {@code SubmitInterceptor} and a
 * {@code HandlerInterceptor} of your own: this package uses nothing more.
 */
package dev.keywork.otel;
