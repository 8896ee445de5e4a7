/** What a client is told: the servers, the headers of every call, and its patience. */
import { localError } from "../errors.js";
import type { SubmitResult } from "../job.js";
import type { Tracing } from "../tracing.js";
import type { Submit } from "./submit.js";

/** How `https://` servers are trusted, and what they are shown. Each is a PEM text or its bytes. */
export interface TlsOptions {
  /** Certificate authorities, in the place of those that Node knows. */
  readonly ca?: string | Uint8Array;
  /** The client's certificate, for servers that ask for one. */
  readonly cert?: string | Uint8Array;
  /** The key of that certificate. */
  readonly key?: string | Uint8Array;
  /** The name to expect in the server's certificate, where it is not the endpoint's. */
  readonly servername?: string;
}

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
  /** How long a submit is tried, with the same `requestId`, while servers are away. Default: 30,000. */
  readonly submitDeadlineMs?: number;
  /** How long one try of a call may take before it counts as unanswered. Default: 10,000. */
  readonly callTimeoutMs?: number;
  /** Wraps every `submit`. */
  readonly interceptors?: readonly SubmitInterceptor[];
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
  readonly tracing: Tracing | undefined;
}

export function checked(options: ClientOptions): Options {
  const endpoints = options.endpoints?.length ? options.endpoints : ["http://127.0.0.1:50051"];
  return {
    servers: {
      endpoints: endpoints.map(origin),
      headers: headers(options.headers ?? {}),
      tls: options.tls,
    },
    submitDeadlineMs: options.submitDeadlineMs ?? 30_000,
    callTimeoutMs: options.callTimeoutMs ?? 10_000,
    interceptors: options.interceptors ?? [],
    tracing: options.tracing,
  };
}

function origin(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    const why = url === undefined ? "it is no URL" : "it does not begin with http:// or https://";
    const text = `failed to read the endpoint "${endpoint}": ${why}; write such as http://127.0.0.1:50051`;
    throw localError("INVALID_ARGUMENT", text);
  }
  return url.origin;
}

function headers(given: Readonly<Record<string, string>>): Record<string, string> {
  const checked = new Headers();
  for (const [name, value] of Object.entries(given)) {
    try {
      checked.append(name, value);
    } catch {
      throw localError("INVALID_ARGUMENT", `failed to read the header ${name}`);
    }
  }
  return Object.fromEntries(checked);
}
