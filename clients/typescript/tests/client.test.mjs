// The client on a platform with the sample network, whose address and keys are in the environment: TOWPATH_SERVER,
// TOWPATH_API_KEY of who submits, TOWPATH_APPROVER_KEY of who decides. Run after a build: node --test tests
import assert from "node:assert/strict";
import { test } from "node:test";

import { RunFailedError, Towpath, TowpathError } from "../dist/index.js";

const url = process.env.TOWPATH_SERVER;
const key = process.env.TOWPATH_API_KEY;
const towpath = new Towpath(); // with the address and the key of the environment
const approver = new Towpath({ url, key: process.env.TOWPATH_APPROVER_KEY });

const use = (tool, args) => ({
  action: "USE_TOOL",
  action_details: { tool_name: tool, tool_params: args },
});
const answer = { action: "RESPOND", action_details: { payload: "done" } };
const find = use("orders.find", { order_id: "8812" });
const refund = use("orders.refund", { order_id: "8812", amount: 129 });
const task = (...script) => ({
  network: "support",
  agent_key: "billing",
  user_message: "Refund order 8812",
  script,
});

async function gateOf(run_id) {
  for (;;) {
    const [gate] = await approver.gates.list({ run_id, status: "pending" });
    if (gate) return gate;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a task runs to its answer", async () => {
  const run = await towpath.run(task(find, answer));
  assert.equal(run.status, "completed");
  assert.deepEqual([run.network, run.caller], ["support", (await towpath.request("GET /v1/me")).caller]);
  const found = await towpath.request("GET /v1/runs", { query: { network: "support", limit: 1 } });
  assert.equal(found.runs.length, 1);
});

test("a lost answer and a cut stream cost time, and nothing comes twice", async () => {
  let lost = 0;
  const resumed = [];
  const unreliable = async (input, init) => {
    const response = await fetch(input, init);
    if (init.method === "POST" && lost++ === 0) throw new TypeError("fetch failed");
    if (init.headers.accept !== "text/event-stream") return response;
    resumed.push(init.headers["last-event-id"]);
    if (resumed.length > 3) return response;
    const events = response.body.getReader();
    let left = resumed.length; // chunks until the connection is gone, in the middle of an event
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await events.read();
        if (done) return controller.close();
        if (left-- > 0) return controller.enqueue(value);
        controller.enqueue(value.subarray(0, value.length - 5));
        await events.cancel();
        controller.error(new TypeError("terminated"));
      },
    });
    return new Response(body, { headers: response.headers });
  };
  const client = new Towpath({ url, key, fetch: unreliable });
  await client.request("GET /v1/me"); // who never had an answer does not try again
  const { run_id, duplicate } = await client.submit(task(find, refund, answer));
  assert.deepEqual([lost, duplicate], [2, true]);
  const deciding = gateOf(run_id).then((gate) => approver.gates.approve(gate, { reason: "a good customer" }));
  const seqs = [];
  let ended;
  for await (const entry of client.follow(run_id)) {
    seqs.push(entry.seq);
    if (entry.event.type === "run_finished") ended = entry.event.status;
  }
  await deciding;
  assert.equal(ended, "completed");
  assert.deepEqual(seqs, seqs.map((_, index) => index + 1));
  assert.ok(resumed.length >= 2 && Number(resumed.at(-1)) > 0, String(resumed));
  const tail = [];
  for await (const entry of client.follow(run_id, { after: seqs.length - 2, children: false })) tail.push(entry.seq);
  assert.deepEqual(tail, seqs.slice(-2));
});

test("a denied call is told to the agent, and a word is for the call that was shown", async () => {
  const { run_id } = await towpath.submit(task(find, refund, answer));
  const gate = await gateOf(run_id);
  assert.equal(gate.detail.tool, "orders.refund");
  const other = approver.gates.approve(gate.gate_id, { digest: "0".repeat(64) });
  await assert.rejects(other, (error) => error.code === "digest_changed" && error.status === 409);
  await approver.gates.deny(gate, { reason: "too much" });
  await towpath.result(run_id);
  const types = [];
  for await (const { run_id: whose, path, event } of towpath.follow(run_id, { children: true })) {
    assert.deepEqual([whose, path], [run_id, []]);
    types.push(event.type);
  }
  assert.ok(types.includes("tool_call_denied"), types.join());
});

test("a call is approved with other arguments", async () => {
  const { run_id } = await towpath.submit(task(find, refund, answer));
  await approver.gates.edit(await gateOf(run_id), { order_id: "8812", amount: 20 }, { reason: "a part" });
  await towpath.result(run_id);
  const { entries } = await towpath.request("GET /v1/runs/{run_id}/events", { path: { run_id } });
  const edited = entries.find(({ event }) => event.type === "tool_call_edited");
  assert.equal(edited.event.args.amount, 20);
});

test("a refusal has its code and remedy, and a run that was stopped is an error", async () => {
  const wrong = towpath.submit({ network: "nobody", user_message: "hello" });
  await assert.rejects(wrong, (error) => {
    assert.ok(error instanceof TowpathError);
    assert.deepEqual([error.code, error.status, error.retryable], ["network_not_found", 404, false]);
    assert.match(error.message, /nobody/);
    assert.ok(error.remedy);
    return true;
  });
  await assert.rejects(new Towpath({ url: `${url}/` }).request("GET /v1/me"), { code: "unauthenticated" });
  const stranger = new Towpath({ url, key: "twp_nobody.secret" });
  await assert.rejects(stranger.request("GET /v1/me"), { code: "unauthenticated", status: 401 });
  await assert.rejects(towpath.request("GET /v1/runs/{run_id}", { path: { run_id: "../me" } }), { status: 404 });
  await assert.rejects(towpath.submit({ network: "support", nonsense: 1 }), /nonsense/);
  const { run_id } = await towpath.submit(task(find, refund, answer));
  await gateOf(run_id);
  await towpath.cancel(run_id, "no longer needed");
  const failed = await towpath.result(run_id).catch((error) => error);
  assert.ok(failed instanceof RunFailedError);
  assert.equal(failed.run.status, "cancelled");
});

test("nobody waits for an address where nobody answers, or longer than they said", async () => {
  const nowhere = new Towpath({ url: "http://127.0.0.1:9" });
  const begun = Date.now();
  await assert.rejects(nowhere.request("GET /v1/me"), { code: "unavailable", retryable: true });
  assert.ok(Date.now() - begun < 5_000);
  const { run_id } = await towpath.submit(task(find, refund, answer));
  await gateOf(run_id);
  await assert.rejects(towpath.result(run_id, { signal: AbortSignal.timeout(300) }), { name: "TimeoutError" });
  await assert.rejects(
    (async () => {
      for await (const _ of towpath.follow(run_id, { signal: AbortSignal.timeout(300) }));
    })(),
    { name: "TimeoutError" },
  );
  await towpath.cancel(run_id);
});
