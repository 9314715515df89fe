import type { Problem, RunView } from "./api.js";

/** What the platform refused, or that it can't be reached: `code` is stable, `remedy` says what to do. */
export class TowpathError extends Error {
  readonly code: string;
  readonly status: number;
  readonly remedy: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  readonly problem: Problem;

  constructor(problem: Problem, options?: ErrorOptions) {
    const faults = (problem.errors ?? []).map((one) => `${one.pointer ?? ""} ${one.detail}`.trim());
    super([`${problem.code}: ${problem.detail}`, ...faults, problem.remedy].filter(Boolean).join("\n"), options);
    this.name = "TowpathError";
    this.code = problem.code;
    this.status = problem.status;
    this.remedy = problem.remedy;
    this.retryable = problem.retryable;
    this.problem = problem;
  }
}

/** A run ended otherwise than it was to; `run` says how. */
export class RunFailedError extends Error {
  readonly run: RunView;

  constructor(run: RunView) {
    super(`run ${run.run_id} ended as ${run.status}: ${run.reason}`);
    this.name = "RunFailedError";
    this.run = run;
  }
}

/** Return what an error answer says, also where something between here and the gateway made it. */
export function errorOf(status: number, text: string): TowpathError {
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.code === "string" && typeof problem.detail === "string") {
      return new TowpathError({ ...problem, remedy: problem.remedy ?? "", retryable: problem.retryable ?? false });
    }
  } catch {
    // not JSON: a proxy's page
  }
  const away = [429, 502, 503, 504].includes(status);
  return localError(away ? "unavailable" : "internal", `the server answered ${status} without saying why`, status);
}

/** Return the error of an address where nobody answered. */
export function unreachable(url: string, cause: unknown): TowpathError {
  const why = cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : cause;
  return localError("unavailable", `${url} can't be reached (${why})`, 503, cause);
}

function localError(code: string, detail: string, status: number, cause?: unknown): TowpathError {
  const retryable = code === "unavailable";
  const remedy = retryable ? "Check the address, and that the gateway runs." : "Read the gateway's log.";
  const title = retryable ? "A part of the platform can't be reached" : "Something went wrong";
  const problem = { type: "about:blank", title, status, code, detail, remedy, retryable, errors: [] };
  return new TowpathError({ ...problem, schema_version: 1 }, { cause });
}
