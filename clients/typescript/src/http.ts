import type { Operations } from "./api.js";
import { errorOf, TowpathError, unreachable } from "./problems.js";

/** An operation of the API, such as `"GET /v1/runs"`. */
export type Operation = keyof Operations;
export type Fetch = typeof globalThis.fetch;

type Part<Name extends string, Value> = [Value] extends [undefined]
  ? { [N in Name]?: undefined }
  : undefined extends Value
    ? { [N in Name]?: Value }
    : { [N in Name]: Value };

/** What an operation is given: `path` and `query` by name, and its `body`. */
export type RequestOptions<O extends Operation> = Part<"path", Operations[O]["path"]> &
  Part<"query", Operations[O]["query"]> &
  Part<"body", Operations[O]["body"]> & { headers?: Record<string, string>; signal?: AbortSignal };

export interface SentRequest {
  path?: Record<string, unknown> | undefined;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 3_000;

/** Counts the time without contact, and waits between tries: longer each time, and never all clients at once. */
export class RetryBackoff {
  #since: number | undefined;
  #waitMs = FIRST_WAIT_MS;
  readonly #limitMs: number;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Start from the beginning, because the platform answered. */
  reset(): void {
    this.#since = undefined;
    this.#waitMs = FIRST_WAIT_MS;
  }

  /** Wait before the next try; throws `error` when it may not be tried again, or the time is over. */
  async wait(error: TowpathError, signal?: AbortSignal): Promise<void> {
    this.#since ??= Date.now();
    const asked = (error.problem.retry_after_s ?? 0) * 1000;
    const waitMs = Math.max(asked, this.#waitMs * (0.5 + Math.random()));
    if (!error.retryable || Date.now() + waitMs - this.#since > this.#limitMs) throw error;
    this.#waitMs = Math.min(this.#waitMs * 2, LONGEST_WAIT_MS);
    await pause(waitMs, signal);
  }
}

/** Sends requests to one gateway with one key. */
export class Http {
  readonly url: string;
  readonly #authorization: string | undefined;
  readonly #fetch: Fetch;
  #answered = false;

  constructor(url: string, key: string | undefined, fetch: Fetch) {
    const address = new URL(url);
    const { username, password } = address; // of the address that `towpath up` prints, which fetch takes in no other form
    address.username = address.password = "";
    this.url = address.href.replace(/\/+$/, "");
    const named = [username, password].map(decodeURIComponent).join(":");
    this.#authorization = key ? `Bearer ${key}` : username ? `Basic ${btoa(named)}` : undefined;
    this.#fetch = fetch;
  }

  /** Do an operation; it is tried again for `retryMs` where the platform can't answer now. */
  async request(operation: string, sent: SentRequest, retryMs: number): Promise<unknown> {
    const retry = new RetryBackoff(retryMs);
    for (;;) {
      try {
        const response = await this.send(operation, sent);
        const text = await response.text();
        const isJson = response.headers.get("content-type")?.includes("json") ?? false;
        return text === "" ? undefined : isJson ? JSON.parse(text) : text;
      } catch (error) {
        await this.waitAfter(error, retry, sent.signal);
      }
    }
  }

  /** Send a request once and return its answer, whose body is not read yet. */
  async send(operation: string, sent: SentRequest): Promise<Response> {
    const [method = "GET", template = "/"] = operation.split(" ");
    const headers: Record<string, string> = { accept: "application/json", ...sent.headers };
    if (this.#authorization) headers["authorization"] = this.#authorization;
    const init: RequestInit = { method, headers };
    if (sent.signal) init.signal = sent.signal;
    if (sent.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(sent.body);
    }
    const response = await this.#fetch(this.url + address(template, sent), init);
    this.#answered = true;
    if (!response.ok) throw errorOf(response.status, await response.text());
    return response;
  }

  /** Wait before the next try; throws what no other try mends. Nobody tries again where nobody has ever answered. */
  async waitAfter(error: unknown, retry: RetryBackoff, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted || error instanceof SyntaxError) throw error;
    const refusal = error instanceof TowpathError ? error : unreachable(this.url, error);
    if (!this.#answered) throw refusal;
    await retry.wait(refusal, signal);
  }
}

function address(template: string, sent: SentRequest): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = sent.path?.[name];
    if (value === undefined || value === "") throw new TypeError(`${template} needs path.${name}`);
    return encodeURIComponent(String(value)); // also of slashes: an id never becomes another address
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(sent.query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) query.append(name, String(one));
    }
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
