import type { LogEntry, Operations, RunAccepted, RunView, SubmitTask } from "./api.js";
import { frames } from "./event_stream.js";
import { Gates } from "./gates.js";
import { type Fetch, Http, type Operation, type RequestOptions, RetryBackoff } from "./http.js";
import { errorOf, RunFailedError, TowpathError } from "./problems.js";

export interface TowpathOptions {
  /** The gateway's address; else TOWPATH_SERVER of the environment. */
  url?: string | undefined;
  /** An API key, `twp_…`; else TOWPATH_API_KEY, which goes to no other address than that of the environment. */
  key?: string | undefined;
  /** Sends the requests, in place of the global `fetch`. */
  fetch?: Fetch | undefined;
}

export interface RunOptions {
  signal?: AbortSignal;
}

export interface FollowOptions extends RunOptions {
  /** Begin behind this seq. */
  after?: number;
  /** Follow the runs below this one too; each event then says whose it is. */
  children?: boolean;
}

/** An event of a run's log; `run_id` and `path` are there where children are followed. */
export type RunEvent = LogEntry & { run_id?: string; path?: string[] };

const MAX_WAIT_S = 30;
const RETRY_MS = 10_000;
/** How long a stream may be without contact: longer than a gateway needs to be replaced. */
const STREAM_RETRY_MS = 120_000;
/** The gateway pings a stream every 15 s; three that are missing mean that the connection is lost. */
const SILENCE_MS = 45_000;
const FAILED = new Set(["failed", "escalated", "abandoned", "cancelled", "timed_out"]);

/** A platform, by the HTTP API of its gateway. */
export class Towpath {
  readonly gates: Gates;
  readonly #http: Http;

  constructor(options: TowpathOptions = {}) {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    const environment = process?.env ?? {};
    const url = options.url ?? environment["TOWPATH_SERVER"];
    if (!url) throw new TypeError("url is missing, and TOWPATH_SERVER is not set");
    const key = options.key ?? (options.url ? undefined : environment["TOWPATH_API_KEY"]);
    this.#http = new Http(url, key, options.fetch ?? ((input, init) => fetch(input, init)));
    this.gates = new Gates(this.#http);
  }

  /** Do any operation of the API. Reads are tried again for 10 s where the platform can't answer, others are not. */
  async request<O extends Operation>(
    operation: O,
    ...[options]: {} extends RequestOptions<O> ? [options?: RequestOptions<O>] : [options: RequestOptions<O>]
  ): Promise<Operations[O]["answer"]> {
    const retryMs = operation.startsWith("GET ") ? RETRY_MS : 0;
    return (await this.#http.request(operation, options ?? {}, retryMs)) as Operations[O]["answer"];
  }

  /** Hand a task over. It is sent again under its idempotency key until it is safe, and is one run all the same. */
  async submit(task: SubmitTask, options: RunOptions = {}): Promise<RunAccepted> {
    const body = { ...task, idempotency_key: task.idempotency_key ?? crypto.randomUUID() };
    return (await this.#http.request("POST /v1/runs", { ...options, body }, RETRY_MS)) as RunAccepted;
  }

  /** Run a task to its end; throws RunFailedError where it ends otherwise than completed. */
  async run(task: SubmitTask, options: RunOptions = {}): Promise<RunView> {
    return this.result((await this.submit(task, options)).run_id, options);
  }

  /** Wait for the end of a run; throws RunFailedError where it ends otherwise than completed. */
  async result(runId: string, options: RunOptions = {}): Promise<RunView> {
    const sent = { ...options, path: { run_id: runId }, headers: { prefer: `wait=${MAX_WAIT_S}` } };
    for (;;) {
      const run = (await this.#http.request("GET /v1/runs/{run_id}", sent, RETRY_MS)) as RunView;
      if (run.status === "completed") return run;
      if (FAILED.has(run.status)) throw new RunFailedError(run);
    }
  }

  /** Stop a run. */
  async cancel(runId: string, reason = ""): Promise<void> {
    await this.request("POST /v1/runs/{run_id}/cancel", { path: { run_id: runId }, body: { reason } });
  }

  /** Yield the events of a run in order, each once, until it ends; a stream that is cut is taken up where it stood. */
  async *follow(runId: string, options: FollowOptions = {}): AsyncGenerator<RunEvent> {
    const retry = new RetryBackoff(STREAM_RETRY_MS);
    const position = { last: options.after ? String(options.after) : "", ended: false };
    while (!position.ended) {
      const cut = new AbortController();
      const signal = options.signal ? AbortSignal.any([cut.signal, options.signal]) : cut.signal;
      try {
        yield* this.#stream(runId, options.children ?? false, position, cut, signal, retry);
        if (!position.ended) throw errorOf(503, "");
      } catch (error) {
        await this.#http.waitAfter(error, retry, options.signal);
      } finally {
        cut.abort();
      }
    }
  }

  /** Read one connection until it ends, for whatever reason. */
  async *#stream(
    runId: string,
    children: boolean,
    position: { last: string; ended: boolean },
    cut: AbortController,
    signal: AbortSignal,
    retry: RetryBackoff,
  ): AsyncGenerator<RunEvent> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (position.last) headers["last-event-id"] = position.last;
    let silence = setTimeout(() => cut.abort(), SILENCE_MS);
    const alive = () => {
      retry.reset();
      clearTimeout(silence);
      silence = setTimeout(() => cut.abort(), SILENCE_MS);
    };
    try {
      const sent = { path: { run_id: runId }, query: children ? { children } : undefined, headers, signal };
      const response = await this.#http.send("GET /v1/runs/{run_id}/events", sent);
      if (!response.body || !response.headers.get("content-type")?.includes("text/event-stream")) {
        throw errorOf(501, "");
      }
      for await (const frame of frames(response.body, alive)) {
        if (frame.event === "bye") return;
        if (frame.event === "problem") throw new TowpathError(JSON.parse(frame.data));
        position.ended = frame.event === "end";
        if (position.ended) return;
        if (frame.id) position.last = frame.id;
        yield JSON.parse(frame.data) as RunEvent;
      }
    } finally {
      clearTimeout(silence);
    }
  }
}
