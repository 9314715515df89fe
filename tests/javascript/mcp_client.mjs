// Drives the platform's MCP server with the official client: node mcp_client.mjs URL KEY COMMAND…
// Prints one JSON document: what each kind of client was given.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { isDetailedTaskV2, isToolCallTaskResultV2 } from "@modelcontextprotocol/ext-tasks/core/v2";

const [url, key, ...command] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const refund = { name: "support", arguments: { user_message: "Refund order 8812" } };

async function use(transport, mode) {
  const asked = [];
  const progress = [];
  const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
  const client = new Client({ name: "towpath-tests", version: "1" }, options);
  client.setRequestHandler("elicitation/create", async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { verdict: "denied", reason: "not today" } };
  });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const small = { name: "support", arguments: { user_message: "Refund order 8811" } };
  const done = await client.callTool(small, { onprogress: (one) => progress.push(one.message) });
  const large = await client.callTool(refund);
  const wrong = await client.callTool({ name: "get_run", arguments: { run_id: "1" } });
  await client.close();
  return {
    tools: tools.map((tool) => tool.name),
    done: done.structuredContent.status,
    progress,
    large: large.structuredContent.status,
    asked,
    wrong: [wrong.isError, wrong.structuredContent.code],
  };
}

async function exchange(method, params, name) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "towpath-tests", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {
      elicitation: { form: {} },
      extensions: { "io.modelcontextprotocol/tasks": {} },
    },
  };
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      ...headers,
      Accept: "application/json, text/event-stream",
      "Content-Type": "application/json",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": method,
      "Mcp-Name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }),
  });
  return (await answer.json()).result;
}

async function tasks() {
  const created = await exchange("tools/call", refund, refund.name);
  const kinds = [];
  let task;
  for (let look = 0; look < 300; look += 1) {
    task = await exchange("tasks/get", { taskId: created.taskId }, created.taskId);
    kinds.push(isDetailedTaskV2(task));
    if (task.status !== "working") break;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  const asked = task.status;
  const [question] = Object.keys(task.inputRequests ?? {});
  const answer = { action: "accept", content: { verdict: "denied", reason: "not today" } };
  await exchange("tasks/update", { taskId: created.taskId, inputResponses: { [question]: answer } }, created.taskId);
  for (let look = 0; look < 300; look += 1) {
    task = await exchange("tasks/get", { taskId: created.taskId }, created.taskId);
    kinds.push(isDetailedTaskV2(task));
    if (task.status === "completed") break;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  return { created: isToolCallTaskResultV2("tools/call", created), kinds: [...new Set(kinds)], asked, end: task.status };
}

const http = () => new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
const environment = { PATH: process.env.PATH, TOWPATH_SERVER: new URL(url).origin, TOWPATH_API_KEY: key };
const stdio = () => new StdioClientTransport({ command: command[0], args: command.slice(1), env: environment });
const found = {
  modern: await use(http(), { pin: "2026-07-28" }),
  legacy: await use(http(), "legacy"),
  stdio: await use(stdio(), { pin: "2026-07-28" }),
  tasks: await tasks(),
};
console.log(JSON.stringify(found));
