/** How servers behind TLS are trusted, and what they are shown. */
import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { types } from "node:util";
import { shown } from "../fields.js";

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

/** @throws {TypeError} Something of it cannot be used. */
export function checkTls(tls: TlsOptions, endpoints: readonly string[]): void {
  if (!endpoints.some((endpoint) => endpoint.startsWith("https:"))) {
    throw new TypeError(
      `tls must be given together with an https:// endpoint, not with ${endpoints.join(", ")}`,
    );
  }
  for (const name of ["ca", "cert", "key"] as const) checkPem(`tls.${name}`, tls[name]);
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new TypeError("tls.cert and tls.key must be given together");
  }
  try {
    const { ca } = pems(tls);
    // Node takes authorities that it cannot read for none.
    if (ca !== undefined) new X509Certificate(ca);
    createSecureContext(pems(tls));
  } catch (cause) {
    throw new TypeError(`tls must be readable: ${String(cause)}`, { cause });
  }
}

function checkPem(name: string, pem: string | Uint8Array | undefined): void {
  if (pem === undefined) return;
  if (typeof pem !== "string" && !types.isUint8Array(pem)) {
    throw new TypeError(`${name} must be PEM, as a string or bytes, not ${shown(pem)}`);
  }
  // Node reads a file without any, such as its name, as one that trusts nobody.
  if (!Buffer.from(pem).includes("-----BEGIN ")) {
    throw new TypeError(
      `${name} must be PEM, as a string or bytes: it has no line that starts with -----BEGIN`,
    );
  }
}

/** Certificates and keys as Node takes them. @internal */
export function pems({ ca, cert, key }: TlsOptions): {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
} {
  const pem = (value: string | Uint8Array) => (typeof value === "string" ? value : Buffer.from(value));
  return {
    ...(ca !== undefined && { ca: pem(ca) }),
    ...(cert !== undefined && { cert: pem(cert) }),
    ...(key !== undefined && { key: pem(key) }),
  };
}
