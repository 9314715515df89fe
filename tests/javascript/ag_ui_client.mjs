// AG-UI's own client, as its users call it: node ag_ui_client.mjs URL KEY OTHER_KEY, where OTHER_KEY may approve.
// Prints one JSON document: what each conversation was given.
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const [url, key, otherKey] = process.argv.slice(2);
const agentOf = (secret, state) =>
  new HttpAgent({ url, headers: { Authorization: `Bearer ${secret}` }, ...(state && { initialState: state }) });

async function ask(agent, parameters = {}) {
  const kinds = [];
  const events = [];
  const told = {};
  const { result, newMessages } = await agent.runAgent(parameters, {
    onEvent: ({ event }) => {
      events.push(event);
      if (kinds.at(-1) !== event.type) kinds.push(event.type);
    },
    onRunFinishedEvent: ({ outcome, pendingToolCallIds }) => Object.assign(told, { outcome, pendingToolCallIds }),
  });
  const texts = newMessages.filter((one) => one.role === "assistant" && one.content).map((one) => one.content);
  return { kinds, events, result, texts, ...told };
}

const say = (agent, content) => agent.addMessage({ id: crypto.randomUUID(), role: "user", content });

const small = agentOf(key, { theme: "dark" });
say(small, "Refund order 8811");
const first = await ask(small);
say(small, "Refund order 8811 again");
const second = await ask(small);

const large = agentOf(key);
say(large, "Refund order 8812");
const waits = await ask(large);
const [interrupt] = large.pendingInterrupts;
const yes = buildResumeArray(large.pendingInterrupts, {
  [interrupt.id]: { status: "resolved", payload: { approved: true } },
});
const quiet = console.error;
console.error = () => undefined;
const refused = await ask(large, { resume: yes }).catch((error) => [error.status, String(error.message)]);
console.error = quiet;
large.headers = { Authorization: `Bearer ${otherKey}` };
const approved = await ask(large, { resume: yes });
const late = await ask(large, { resume: yes });

const denying = agentOf(otherKey);
say(denying, "Refund order 8812");
await ask(denying);
const no = buildResumeArray(denying.pendingInterrupts, { [denying.pendingInterrupts[0].id]: { status: "cancelled" } });
const denied = await ask(denying, { resume: no });

const decides = (payload) => ({ action: "RESPOND", action_reasoning: "done", action_details: { payload } });
const played = (script) => ({ towpath: { agent_key: "billing", script } });
const tools = [{ name: "pick_colour", description: "Asks for a colour.", parameters: { type: "object" } }];
const own = agentOf(key);
say(own, "Paint it");
const calls = decides({ tool_calls: [{ name: "pick_colour", arguments: { of: "door" } }] });
const asked = await ask(own, { tools, forwardedProps: played([calls]) });
own.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: asked.pendingToolCallIds[0], content: "blue" });
const painted = await ask(own, { tools, forwardedProps: played([decides({ message: "It is blue." })]) });

console.log(
  JSON.stringify({
    first, second, waits, interrupt, refused, approved, late, denied, asked, painted,
    state: small.state, waiting: large.pendingInterrupts.length, own: own.messages,
  }),
);
