/** What a client is told: the servers, the headers of every call, and its patience. */
import type { SubmitResult } from "../job.js";
import { type Logger, WARNINGS } from "../logger.js";
import { isFunction, limitMs, list } from "../options.js";
import type { Tracing } from "../tracing.js";
import type { Submit } from "./submit.js";
import { checkTls, type TlsOptions } from "./tls.js";

/** Wraps every `submit`: for metrics, defaults, checks. The first one is the outermost. */
export type SubmitInterceptor = (
  submit: Submit,
  next: (submit: Submit) => Promise<SubmitResult>,
) => Promise<SubmitResult>;

/** The options of a {@link Client}. */
export interface ClientOptions {
  /**
   * Servers, such as `http://127.0.0.1:50051`; `https://` means TLS. With several, an outage of one turns to the next.
   * Default: `http://127.0.0.1:50051`.
   */
  readonly endpoints?: readonly string[];
  /** Headers of every call, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For `https://` servers. Default: the authorities that Node knows. */
  readonly tls?: TlsOptions;
  /** How long a submit is tried, with the same `requestId`, while servers are away: more than 0. Default: 30,000. */
  readonly submitDeadlineMs?: number;
  /** How long one try of a call may take before it counts as unanswered: more than 0. Default: 10,000. */
  readonly callTimeoutMs?: number;
  /** Wraps every `submit`. */
  readonly interceptors?: readonly SubmitInterceptor[];
  /**
   * Where it logs to that submits are tried again: `console`, or another logger. Workers of this client use it too.
   * Default: warnings to `console.warn`, and nothing else. What a logger throws is dropped.
   */
  readonly logger?: Logger;
  /** Carries trace context from submits to handlers. Workers of this client use it too. */
  readonly tracing?: Tracing;
}

/** What reaching the servers takes. Plain data: it crosses threads. */
export interface Servers {
  /** At least one; each an origin. */
  endpoints: string[];
  headers: Record<string, string>;
  tls: TlsOptions | undefined;
}

/** A client's options, checked. */
export interface Options {
  readonly servers: Servers;
  readonly submitDeadlineMs: number;
  readonly callTimeoutMs: number;
  readonly interceptors: readonly SubmitInterceptor[];
  readonly logger: Logger;
  readonly tracing: Tracing | undefined;
}

export function checked(options: ClientOptions): Options {
  const { tls, interceptors = [], logger = WARNINGS, tracing } = options;
  const endpoints = endpointsOf(options.endpoints ?? ["http://127.0.0.1:50051"]);
  if (tls !== undefined) checkTls(tls, endpoints);
  return {
    servers: { endpoints, headers: headers(options.headers ?? {}), tls },
    submitDeadlineMs: limitMs("submitDeadlineMs", options.submitDeadlineMs ?? 30_000),
    callTimeoutMs: limitMs("callTimeoutMs", options.callTimeoutMs ?? 10_000),
    interceptors: list("interceptors", interceptors, "functions", isFunction),
    logger,
    tracing,
  };
}

function endpointsOf(given: readonly string[]): string[] {
  const endpoints = list("endpoints", given, "URLs", (one) => typeof one === "string");
  if (endpoints.length === 0) throw new RangeError("endpoints must name at least one server, not none");
  return endpoints.map(origin);
}

function origin(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const wrong = whatIsWrong(url);
  if (url !== undefined && wrong === undefined) return url.origin;
  // It is not repeated whole: there may be a password in it.
  const given = url?.password ? `${url.protocol}//…@${url.host}` : `"${endpoint}"`;
  throw new TypeError(`endpoints must be such as http://127.0.0.1:50051, not ${given}: ${wrong}`);
}

/** What is left out of a URL would be changed in silence: only its origin is used. */
function whatIsWrong(url: URL | undefined): string | undefined {
  if (url === undefined) return "it is no URL";
  if (!["http:", "https:"].includes(url.protocol)) return "it does not begin with http:// or https://";
  if (url.username || url.password) return "it names a user; credentials are headers";
  if (url.pathname !== "/" || url.search || url.hash) return "it has more than a host and a port";
  return undefined;
}

function headers(given: Readonly<Record<string, string>>): Record<string, string> {
  const checked = new Headers();
  for (const [name, value] of Object.entries(given)) {
    try {
      checked.append(name, value);
    } catch {
      // The cause has the value, which may be a secret.
      throw new TypeError(`headers must be names and values of HTTP; the one named ${name} is not`);
    }
  }
  return Object.fromEntries(checked);
}
