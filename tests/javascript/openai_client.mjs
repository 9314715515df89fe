// OpenAI's client for JavaScript, as its users call it: prints what it got as one line of JSON.
// Its address and key are those of the environment: OPENAI_BASE_URL and OPENAI_API_KEY.
import OpenAI from "openai";

const client = new OpenAI();
const model = "support";
const messages = [{ role: "user", content: "Do I need a coat?" }];
const tool = { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } };
const tools = [{ type: "function", function: tool }];
const decides = (payload) => ({ action: "RESPOND", action_reasoning: "done", action_details: { payload } });
const played = (...script) => ({ towpath: { agent_key: "billing", script } });
const asks = decides({ tool_calls: [{ name: "get_weather", arguments: { city: "Kiel" } }] });
const says = decides({ message: "Yes, it rains." });

const models = [];
for await (const one of client.models.list()) models.push(one.id);

const asked = await client.chat.completions.create({ model, messages, tools, ...played(asks) });
const [call] = asked.choices[0].message.tool_calls;
const result = { role: "tool", tool_call_id: call.id, content: "rain" };
const more = [...messages, asked.choices[0].message, result];
const chat = await client.chat.completions.create({ model, messages: more, tools, ...played(says) });

const stream = await client.chat.completions.create({ model, messages, stream: true, ...played(says) });
let streamed = "";
for await (const chunk of stream) streamed += chunk.choices[0]?.delta?.content ?? "";

const begun = await client.responses.create({ model, input: "hello", background: true, ...played(says) });
let response = begun;
while (["queued", "in_progress"].includes(response.status)) response = await client.responses.retrieve(begun.id);
const events = [];
const next = { model, input: "and now?", previous_response_id: begun.id, stream: true, ...played(says) };
for await (const event of await client.responses.create(next)) events.push(event);

let refused;
try {
  await client.chat.completions.create({ model, messages, n: 2, store: false });
} catch (error) {
  refused = { kind: error.constructor.name, code: error.code, message: error.message };
}

const last = events.at(-1);
console.log(
  JSON.stringify({
    models,
    call: call.function,
    chat: chat.choices[0].message.content,
    run: chat._request_id,
    streamed,
    response: response.output_text,
    thread: [last.type, last.response.output[0].content[0].text, last.response.previous_response_id === begun.id],
    refused,
  }),
);
