import type { ActionDone, GateView, Operations } from "./api.js";
import type { Http } from "./http.js";

/** What is said at a gate. `digest` binds the word to the call as it was shown; a gate that is given whole has it. */
export interface GateWord {
  reason?: string;
  digest?: string;
}

/** What waits for a person. A word is sent once: who gets no answer looks at the gate before saying it again. */
export class Gates {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Return the gates of a page, oldest first; `{ run_id }` those of one run, `{ root_run_id }` of all below it too. */
  async list(query: Operations["GET /v1/gates"]["query"] = {}): Promise<GateView[]> {
    const page = await this.#http.request("GET /v1/gates", { query }, 10_000);
    return (page as Operations["GET /v1/gates"]["answer"]).gates;
  }

  /** Let what waits happen. */
  approve(gate: GateView | string, word: GateWord = {}): Promise<ActionDone> {
    return this.#say("approve", gate, word);
  }

  /** Refuse what waits; the agent is told the reason. */
  deny(gate: GateView | string, word: GateWord & { reason: string }): Promise<ActionDone> {
    return this.#say("deny", gate, word);
  }

  /** Approve a call with other arguments. */
  edit(gate: GateView | string, args: Record<string, unknown>, word: GateWord = {}): Promise<ActionDone> {
    return this.#say("edit", gate, { ...word, args });
  }

  async #say(act: string, gate: GateView | string, word: GateWord & { args?: unknown }): Promise<ActionDone> {
    const gate_id = typeof gate === "string" ? gate : gate.gate_id;
    const shown = typeof gate === "string" ? undefined : gate.detail?.["digest"];
    const body = typeof shown === "string" ? { digest: shown, ...word } : word;
    return (await this.#http.request(`POST /v1/gates/{gate_id}/${act}`, { path: { gate_id }, body }, 0)) as ActionDone;
  }
}
