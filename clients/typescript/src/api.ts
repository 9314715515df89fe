// Made from the gateway's OpenAPI document by: python -m tests.typescript

/** A call: which method, and its parameters as the protocol names them. */
export interface A2aCall {
  id?: string | number | null;
  jsonrpc: "2.0";
  method: string;
  params?: Record<string, unknown> | null;
}

/** End the run as abandoned. */
export interface AbandonInstruction {
  kind: "give_up";
  rationale: string;
}

/**
 * A call that might be made; `caller` defaults to who asks. `grant` is the task's own, as at a submission.
 *
 * `used` says how often the run has used limited rules, by name, and `spent_usd` what it has cost. With `run_id` the
 * platform looks up where the values come from, as if that run asked now; `origin` states it instead. Without `rates`
 * the project's limits per time count as unused.
 */
export interface AccessQuestion {
  agent_key: string;
  agent_type?: string;
  args?: Record<string, unknown>;
  caller?: string | null;
  grant?: TaskGrantRule[] | null;
  labels?: Record<string, string>;
  network: string;
  operation?: string | null;
  origin?: Record<string, unknown> | null;
  rates?: boolean;
  run_id?: string | null;
  schema_version?: number;
  spent_usd?: number | null;
  step?: number;
  tool: string;
  used?: Record<string, number>;
}

/**
 * The verdict, why, and what would be allowed instead; `denial` is what the model would get.
 *
 * `hints` name the networks and agents that the question, or a rule that speaks of the tool, names and nobody has.
 * `rule_at` is where the rule stands, `policies.yaml:14`, where that is known.
 */
export interface AccessVerdict {
  allowed_tools: string[];
  denial?: Denial | null;
  hints: string[];
  origins: Record<string, unknown>[];
  policy_version: number;
  reason: string;
  rule?: string | null;
  rule_at: string;
  schema_version: number;
  suggestion: string;
  trace: RuleEvaluation[];
  verdict: "allow" | "deny" | "require_approval";
  violation_type: string;
}

/** Reply to an action that has nothing to give back; `detail` says what was done. */
export interface ActionDone {
  detail: string;
  schema_version: number;
}

/** One thing that is paused; `switch_id` is of this pause alone, so that a later one is another. */
export interface ActiveSwitch {
  kind: "project" | "network" | "tool" | "caller";
  name: string;
  paused_at: string;
  paused_by: string;
  reason: string;
  switch_id: string;
}

/** One message of the conversation; activities and reasoning are shown to people, and passed over here. */
export interface AgUiMessage {
  content?: string | InputPart[] | Record<string, unknown> | null;
  role: "developer" | "system" | "assistant" | "user" | "tool" | "activity" | "reasoning";
  toolCallId?: string;
  toolCalls?: MessageToolCall[] | null;
}

/** Every registered tool that some rule speaks of. */
export interface AgentPermissions {
  permissions: ToolPermission[];
  policy_version: number;
  schema_version: number;
}

/** Another agent acts from now on. */
export interface AgentTransferred {
  context?: unknown;
  epoch: number;
  forced: boolean;
  source: string;
  step: number;
  target: string;
  type: "agent_transferred";
}

/** Something else that the refused agent may really do under its grants; `conditional` where arguments decide. */
export interface AlternativeTool {
  conditional: boolean;
  operation: string;
  tool: string;
  verdict: "allow" | "require_approval";
  why: string;
}

/** An amount of each unit: money, tokens, model calls and tool calls. */
export interface Amounts {
  model_calls: number;
  tokens: number;
  tool_calls: number;
  usd_micros: number;
}

/** Something that the application tells of itself. */
export interface AppContext {
  description: string;
  value: string;
}

/**
 * A matrix as YAML (`kind: Policy`); with `dry_run` it is only checked, with `if_version` that must be in force.
 *
 * With `strict` what is probably wrong with it is a problem too.
 */
export interface ApplyPolicyBody {
  dry_run?: boolean;
  if_version?: number | null;
  note?: string;
  schema_version?: number;
  source?: string;
  strict?: boolean;
  text: string;
}

/** A person's yes to a gate; `digest` binds it to the call as it was shown. */
export interface ApproveGateBody {
  digest?: string | null;
  reason?: string;
  schema_version?: number;
}

/** Wait at a gate for a person. */
export interface AskPersonInstruction {
  detail?: Record<string, unknown>;
  kind: "ask_person";
  reason: string;
}

/** An earlier answer, as it was given: whatever else it has is passed over. */
export interface AssistantMessage {
  content?: string | (ChatTextPart | ChatImagePart | ChatFilePart)[] | null;
  role: "assistant";
  tool_calls?: WantedCall[] | null;
}

/**
 * One audit entry; `erased` where its detail and the digest of its arguments are gone for good.
 *
 * `tool_version` is the version of the tool, as the registry counts, by which a call was decided or with which it
 * ended; 0 in other entries, in those of earlier releases and in erased ones.
 */
export interface AuditEntry {
  actor: string;
  agent_key: string;
  args_digest: string;
  at: string;
  caller: string;
  detail?: Record<string, unknown>;
  entry_id: number;
  erased: boolean;
  execution_id?: string | null;
  network: string;
  operation: string;
  phase: string;
  policy_version: number;
  project: string;
  rule?: string | null;
  run_id?: string | null;
  tool: string;
  tool_version: number;
  verdict: string;
}

/**
 * Where an export stands. The tree's size was fixed by the first piece, so that the bundle has one end.
 *
 * It is handed back as it came: the signature binds it to the project, the times and the piece before. `watched` is
 * the leaf up to which nobody erased or dropped anything meanwhile; None where the log can't be sealed any more.
 */
export interface AuditExportCursor {
  effects_since?: string | null;
  end_seal: number;
  execution_id?: string | null;
  leaf: number;
  leaves_done?: boolean;
  page: number;
  run_id?: string | null;
  seal_id: number;
  signature?: string;
  size: number;
  watched?: number | null;
}

/**
 * Audit entries, newest first, and `total` of those near the newest.
 *
 * A page is made from a bounded part of the audit, so it may have few entries or none and still `next_before`.
 */
export interface AuditPage {
  entries: AuditEntry[];
  next_before?: number | null;
  schema_version: number;
  total: number;
}

/** Lines of a bundle, without their newlines; the bundle is whole where there is no cursor. */
export interface AuditPiece {
  cursor?: AuditExportCursor | null;
  lines: string[];
  schema_version: number;
}

/** The proof as text, to be kept as a file: `towpath audit verify` reads it without the platform. */
export interface AuditProof {
  entries: number;
  proof: string;
  schema_version: number;
  size: number;
}

/** The next request waits until `until`: attempt number `attempt` of the step must not come at once. */
export interface BackedOff {
  attempt: number;
  reason: string;
  step: number;
  type: "backed_off";
  until: string;
}

/** A background run comes to its end after `index` iterations; the last event before `run_finished`. */
export interface BackgroundRunEnded {
  decision: string;
  failures: number;
  index: number;
  reason: string;
  status: string;
  tools: string[];
  type: "terminated";
}

/**
 * How an objective is pursued; a task may set any of it, a network gives the defaults of its tasks.
 *
 * `iteration_timeout_ms` bounds one iteration: past it the run reflects, past twice of it the run fails. With
 * `plan_needs_steps` a plan without any step is none: a run begins with it set, the logs of earlier ones do not have
 * it, and go on as they did.
 */
export interface BackgroundRunSettingsInput {
  allow_plan_reset?: boolean;
  enable_reflection?: boolean;
  iteration_timeout_ms?: number | null;
  max_failures?: number;
  max_steps?: number | null;
  plan_needs_steps?: boolean | null;
  summarize_model?: string | null;
}

export type BackgroundRunSettingsOutput = Record<string, unknown>;

/** An objective and the schema of what it hands over; it makes the run one of kind `background`. */
export interface BackgroundRunTaskInput {
  context_sections?: CallerContextSection[];
  deliverable_schema?: Record<string, unknown> | null;
  mounts?: WorkspaceMount[];
  objective: string;
  settings?: BackgroundRunSettingsInput | null;
}

/** An objective and the schema of what it hands over; it makes the run one of kind `background`. */
export interface BackgroundRunTaskOutput {
  context_sections: CallerContextSection[];
  deliverable_schema?: Record<string, unknown> | null;
  mounts: WorkspaceMount[];
  objective: string;
  settings?: BackgroundRunSettingsOutput | null;
}

/**
 * What may be spent: dollars, tokens, model calls and tool calls; what is left out has no limit.
 *
 * Once `soft` of a limit is spent the run is warned (`warn`), or waits for a person (`gate`).
 */
export interface Budget {
  model_calls?: number | null;
  on_soft?: "warn" | "gate";
  soft?: number;
  tokens?: number | null;
  tool_calls?: number | null;
  usd?: number | null;
}

/** One account: whose, what is limited, spent, reserved and left. */
export interface BudgetAccount {
  key: string;
  on_soft: "warn" | "gate";
  scope: "run" | "agent" | "caller" | "project" | "day";
  set_at?: string | null;
  set_by: string;
  soft: number;
  units: BudgetUnitBalance[];
}

/** Accounts, the wider ones last. */
export interface BudgetAccountList {
  accounts: BudgetAccount[];
  schema_version: number;
}

/** From here on the run spends from these budget accounts, at these prices of models. */
export interface BudgetAccountsApplied {
  prices?: Record<string, ModelPrice>;
  scopes: RunBudgetAccount[];
  type: "budget_applied";
}

/**
 * Why a reservation was refused: of `limit` so much is spent and reserved, and `wanted` does not fit.
 *
 * `unpriced` names a model whose price nobody knows: money is limited there, and what it costs can't be counted.
 */
export interface BudgetRefusal {
  key: string;
  limit: number;
  reserved: number;
  scope: "run" | "agent" | "caller" | "project" | "day";
  spent: number;
  unit: "usd_micros" | "tokens" | "model_calls" | "tool_calls";
  unpriced: string;
  wanted: number;
}

/** A reservation did not fit. `means` is what the run may still ask for: lean, last_answer or nothing. */
export interface BudgetRefused {
  means: string;
  refusal: BudgetRefusal;
  step: number;
  type: "budget_refused";
}

/** The account as it stands now; None where nothing limits it any more. */
export interface BudgetSet {
  account: BudgetAccount | null;
  changed: boolean;
  schema_version: number;
}

/** What one account holds of one unit. `left` is None without a limit; `estimated` is a part of `spent`. */
export interface BudgetUnitBalance {
  estimated: number;
  left: number | null;
  limit: number | null;
  reserved: number;
  spent: number;
  unit: "usd_micros" | "tokens" | "model_calls" | "tool_calls";
}

/** So much of a limit is spent that the run is warned, or a person asked (`on_soft`). */
export interface BudgetWarned {
  key: string;
  limit: number;
  on_soft: string;
  scope: string;
  spent: number;
  step: number;
  type: "budget_warned";
  unit: string;
}

/** What became of each run, in the order in which they were named. */
export interface BulkDone {
  action: "cancel" | "retry" | "label" | "export";
  done: number;
  results: BulkResult[];
  schema_version: number;
}

/**
 * What became of one run: nothing but its id where it was done; `code` says why it was not.
 *
 * `new_run_id` is the run that a retry began.
 */
export interface BulkResult {
  code: string;
  detail: string;
  new_run_id?: string | null;
  run_id: string;
}

/** What is to be done to these runs. A retry with a `key` that was used before begins nothing anew. */
export interface BulkRunsBody {
  action: string;
  key?: string | null;
  labels?: Record<string, string>;
  reason?: string;
  remove?: string[];
  run_ids: string[];
  schema_version?: number;
}

/** The runs that a filter gives and *action* is possible for, newest first. `whole`: there are no more of them. */
export interface BulkSelection {
  action: "cancel" | "retry" | "label" | "export";
  by_status: Record<string, number>;
  count: number;
  run_ids: string[];
  schema_version: number;
  whole: boolean;
}

/**
 * What became of the tool calls of a run, without those of its child runs.
 *
 * `asked` are the calls of its decisions that were valid. `allowed` have ended otherwise than by a denial, with
 * success or without, and `denied` by one; the rest are open, or were voided by the end of the run. `held` waited for
 * a person or a switch at some time, whatever became of them.
 */
export interface CallCounts {
  allowed: number;
  asked: number;
  denied: number;
  held: number;
}

/** Run these calls together and join the results in call order. */
export interface CallToolsInstruction {
  calls: ToolCall[];
  kind: "call_tools";
}

/** A function that an earlier answer asked for; the arguments are JSON text. */
export interface CalledFunction {
  arguments?: string;
  name: string;
}

/** A section that the caller adds to every prompt of the run. */
export interface CallerContextSection {
  text: string;
  title: string;
}

/**
 * Who a request is let in as. `gate_roles` are the roles in which the caller speaks at gates that are no approvals.
 *
 * `key` is the prefix of the key, which stands for it in records; an embedded platform asks its own person for none.
 */
export interface CallerView {
  caller: string;
  gate_roles: string[];
  key?: string | null;
  project: string;
  roles: string[];
  schema_version: number;
  scopes: string[];
  session_expires_at?: string | null;
  signed_in_by: "key" | "session" | "machine";
}

/** The run is `cancelling`; the fence is up. With `in_answer` the reason will stand in the run's answer. */
export interface CancelAccepted {
  by: string;
  fence: number;
  in_answer: boolean;
  reason: string;
  type: "cancel_accepted";
}

/** Why a run should stop. */
export interface CancelRunBody {
  reason?: string;
  schema_version?: number;
}

/**
 * The attempt that an answer is to, and whose model calls paid for it; told in runs that have a budget.
 *
 * `called_in` is the attempt whose model calls were paid where that was an earlier one (0: its own), and `uncounted`
 * how many of its calls ended without anybody knowing what they used.
 */
export interface ChargedAttempt {
  attempt: number;
  called_in: number;
  uncounted: number;
}

/** A file with its bytes. */
export interface ChatFile {
  file_data: string;
  filename?: string;
}

/** A document in a message. */
export interface ChatFilePart {
  file: ChatFile;
  type: "file";
}

/** An image in a message. */
export interface ChatImagePart {
  image_url: ImageAddress;
  type: "image_url";
}

/** One message of a transcript. An assistant's may hold tool calls, a tool's answers one of them, a user's files. */
export interface ChatMessage {
  agent_key: string;
  attachments: StoredAttachment[];
  call_id: string;
  content: string;
  role: MessageRole;
  status: string;
  step: number;
  tool_calls: ChatToolCall[];
}

/** A conversation, whose last message the network answers. */
export interface ChatRequest {
  audio?: unknown;
  frequency_penalty?: unknown;
  function_call?: unknown;
  functions?: unknown;
  logit_bias?: unknown;
  logprobs?: unknown;
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  messages: (InstructionMessage | UserMessage | AssistantMessage | ToolMessage)[];
  metadata?: Record<string, string> | null;
  modalities?: unknown;
  model: string;
  n?: unknown;
  parallel_tool_calls?: boolean | null;
  prediction?: unknown;
  presence_penalty?: unknown;
  /** Passed over. */
  prompt_cache_key?: unknown;
  /** Passed over. */
  prompt_cache_retention?: unknown;
  reasoning_effort?: string | null;
  response_format?: ChatSchemaFormat | PlainFormat | null;
  /** Passed over. */
  safety_identifier?: unknown;
  seed?: number | null;
  service_tier?: unknown;
  stop?: string | string[] | null;
  store?: unknown;
  stream?: boolean | null;
  stream_options?: ChatStreamOptions | null;
  temperature?: number | null;
  tool_choice?: "none" | "auto" | "required" | ChatToolChoice | null;
  tools?: ChatTool[];
  top_logprobs?: unknown;
  top_p?: number | null;
  towpath?: TowpathOptions | null;
  /** Passed over. */
  user?: unknown;
  verbosity?: unknown;
  web_search_options?: unknown;
}

/** That the answer satisfies a JSON Schema. */
export interface ChatSchemaFormat {
  json_schema: SchemaFormat;
  type: "json_schema";
}

/** What a stream tells beside the answer. */
export interface ChatStreamOptions {
  /** Passed over. */
  include_obfuscation?: unknown;
  include_usage?: boolean;
}

/** A text in a message. */
export interface ChatTextPart {
  refusal?: string;
  text?: string;
  type: "text" | "refusal";
}

/** A tool of the caller. */
export interface ChatTool {
  function: FunctionTool;
  type: "function";
}

/** A tool call as its model wrote it; `call_id` is the execution id. */
export interface ChatToolCall {
  arguments: Record<string, unknown>;
  call_id: string;
  tool: string;
}

/** That the answer asks for one function. */
export interface ChatToolChoice {
  function: ChosenFunction;
  type: "function";
}

/** Which model is to be tried, as networks name it: `provider:model`. */
export interface CheckModelBody {
  model: string;
  schema_version?: number;
}

/** A signed checkpoint, to be kept where the platform can't reach it, and the key to check it with. */
export interface CheckpointView {
  at: string;
  fingerprint: string;
  note: string;
  public_key: string;
  schema_version: number;
  size: number;
}

/**
 * A child has its final status; `worked` are the tools of which a call succeeded in it, by its own log.
 *
 * `below` is what its own children have cost, where it had any, and `usage_below` the tokens that they used.
 */
export interface ChildEnded {
  below?: Cost | null;
  child_id: string;
  child_seq: number;
  cost: Cost;
  cursors?: Record<string, number>;
  final?: Record<string, unknown> | null;
  index: number;
  reason: string;
  status: string;
  step: number;
  type: "child_ended";
  usage: Usage;
  usage_below?: Usage | null;
  worked: string[];
}

/** A child run began to wait for people, or stopped: while all that a run waits for do, its time stands still. */
export interface ChildGateWaitChanged {
  child_id: string;
  child_seq: number;
  type: "child_waits";
  waits: boolean;
}

/** The most that a child run, with its own children, may have of what its root may spend. */
export interface ChildRunBudget {
  budget: Budget;
  run_id: string;
}

/** A child run was born in this very transition; `index` is its place among the children of the step. */
export interface ChildStarted {
  child_id: string;
  index: number;
  step: number;
  task: ChildTask;
  type: "child_started";
}

/** The parent no longer wants a child run, which is asked to stop until it has ended. */
export interface ChildStopRequested {
  child_id: string;
  reason: string;
  type: "child_stopped";
}

/**
 * The task of a child run: `purpose` says what its parent wants it for, `subject` what it is about.
 *
 * `execution_id` is the call that it answers, if any, and `policy_version` what permitted that. It spends what its
 * root may spend; `carve_out` is the most of that which it, with its own children, may have. A `response_schema` is
 * what its answer satisfies, where that is to be the answer of its parent.
 */
export interface ChildTask {
  agent_key: string;
  carve_out?: Budget | null;
  execution_id?: string | null;
  goal?: GoalTaskOutput | null;
  max_steps?: number | null;
  plan?: PlanTask | null;
  policy_version: number;
  purpose: string;
  response_schema?: Record<string, unknown> | null;
  subject: string;
  swarm?: SelectedSwarm | null;
  timeout_ms?: number | null;
  user_message: string;
}

/** The function that is to be asked for. */
export interface ChosenFunction {
  name: string;
}

/** A tool that the application carries out itself. */
export interface ClientTool {
  description?: string;
  name: string;
  parameters?: Record<string, unknown> | null;
}

/** An agent inside a snapshot; `prompt` is the compiled base prompt (a jinja template, all names known). */
export interface CompiledAgent {
  agent_type: string;
  allow_respond: boolean;
  allowed_routes: string[];
  budget?: Budget | null;
  description: string;
  display_name: string;
  equipped_tools: string[];
  fallback_models: string[];
  key: string;
  model: string;
  model_settings?: ModelSettings | null;
  prompt: string;
  respond_guidance: string;
  respond_schema?: Record<string, unknown> | null;
}

/**
 * A swarm inside a snapshot: checked, members and stages worked out; stages in order, each sorted by name.
 *
 * `stages` are of a workflow; elsewhere there is one with the lead. `delegates` are the members that a team's lead
 * may ask, `handoffs` what each agent of a handoff may answer with. `steps` are those of one run in all, where these
 * are more than each agent's once: for all handoffs, here or in a nested swarm. Snapshots that were published before
 * it was written have none, so that their runs replay as they were.
 */
export interface CompiledSwarm {
  agent_steps: number;
  delegates: string[];
  description: string;
  handoffs?: Record<string, string[]>;
  max_handoffs: number;
  max_parallel: number;
  members: string[];
  mode: "workflow" | "handoff" | "team";
  stages: string[][];
  steps?: number | null;
  swarms?: Record<string, CompiledSwarm>;
}

/** A person wants to know how confident the model is: it is asked when the step is over. */
export interface ConfidenceRequested {
  act_id: string;
  by: string;
  reason: string;
  step: number;
  type: "confidence_requested";
}

/**
 * The run that another one continues, and the first run of their thread, which names it.
 *
 * `turns_left_out` of the conversation before it were left out when the others were cut. A model is asked to summarize
 * those `to_summarize`, which are new among them; `summary` is what one has said of those before.
 */
export interface ContinuedRun {
  run_id: string;
  summary: string;
  thread_id: string;
  to_summarize: EarlierTurn[];
  turns_left_out: number;
}

/** Money of one or more model calls; `usd` is None when a price is unknown, never 0 for that reason. */
export interface Cost {
  price_known: boolean;
  price_source: string;
  usd?: number | null;
}

/**
 * The dearest names first, then by tokens; `left_out` counts names that did not fit.
 *
 * A run with two labels is in two rows, so rows of labels need not add up to the days.
 */
export interface CostReport {
  by: "network" | "agent" | "model" | "label" | "caller";
  days: DayCost[];
  left_out: number;
  names: NamedCost[];
  schema_version: number;
  since: string;
  unpriced_models: UnpricedModel[];
}

/**
 * What a new key may do, for whom and for how long; `expires_in_s` None means until it is revoked.
 *
 * Without `scopes` it has those of its `roles`.
 */
export interface CreateKeyBody {
  caller: string;
  expires_in_s?: number | null;
  note?: string;
  roles?: string[];
  schema_version?: number;
  scopes?: string[];
}

/**
 * One acceptance criterion: a CEL expression over what happened (`when`), or a text that a model judges (`text`).
 *
 * An expression sees `artifacts`, `tests`, `workspace`, `last_output`, `results` and `claimed`, and must be exactly
 * true.
 */
export interface Criterion {
  name?: string;
  text?: string | null;
  when?: string | null;
}

/** The costs of one day. */
export interface DayCost {
  day: string;
  model_calls: number;
  runs: number;
  tokens: number;
  unpriced: number;
  usd: number;
}

/**
 * One dead letter. `body` is its text, as much of it as fits an answer; lists leave it out.
 *
 * What is not UTF-8 is shown as U+FFFD. `cut` says that only the beginning of the message is kept, `size` bytes: such
 * a letter can't be sent again.
 */
export interface DeadLetter {
  at: string;
  body?: string | null;
  cut: boolean;
  dead_letter_id: number;
  effect_id?: string | null;
  failures: number;
  project?: string | null;
  reason: string;
  run_id?: string | null;
  schema_version: number;
  settled_at?: string | null;
  settled_by: string;
  settled_reason: string;
  size: number;
  status: "dead" | "requeued" | "discarded";
  stream: string;
  subject: string;
}

/** Dead letters, newest first; `next_before` continues. */
export interface DeadLetterPage {
  letters: DeadLetter[];
  next_before?: number | null;
  schema_version: number;
}

/** One model call of a debug run, as it was sent and as it came back. History has other names for two of these. */
export interface DebugModelCall {
  agent_key: string;
  attempt: number;
  call: number;
  error?: string | null;
  kind: string;
  model: string;
  prompt?: string | null;
  raw_text?: string | null;
  step: number;
}

/**
 * Raw prompts and raw model texts of a debug run; `missing` counts those that did not arrive.
 *
 * Raw prompts and raw model texts; they travel apart from the run, so `missing` counts what did not arrive.
 */
export interface DebugModelCallList {
  missing: number;
  steps: DebugModelCall[];
}

/**
 * Attempt number `attempt` brought no answer, and the next one is sent at `until`, to `next_model` if that is set.
 *
 * A provider asks for time, or another model is asked in its place. `again_at` is when the first provider that asked
 * for time may be asked again. Usage and cost are of that attempt; the request is still pending.
 */
export interface DecisionPostponed {
  again_at?: string | null;
  agent_key: string;
  answered?: ChargedAttempt | null;
  attempt: number;
  code: string;
  cost: Cost;
  duration_ms: number;
  kind: string;
  message: string;
  model: string;
  next_model: string;
  request_id: string;
  step: number;
  type: "decision_postponed";
  until: string;
  usage: Usage;
}

/** A model answered a request of `kind`. Usage and cost are of all its attempts. */
export interface DecisionReceived {
  agent_key: string;
  answered?: ChargedAttempt | null;
  cost: Cost;
  decision: Record<string, unknown>;
  duration_ms: number;
  epoch: number;
  kind: string;
  model: string;
  prompt_digest: string;
  raw_digest: string;
  request_id: string;
  script?: PlayedScriptEntry | null;
  step: number;
  type: "decision_received";
  usage: Usage;
}

/** Validation refused a decision; `feedback` goes back to the model (shown as status `retry`). */
export interface DecisionRefused {
  agent_key: string;
  code: string;
  epoch: number;
  feedback: string;
  step: number;
  type: "decision_refused";
}

/** A decision request of `kind` failed: no answer could be had from the model. */
export interface DecisionRequestFailed {
  agent_key: string;
  answered?: ChargedAttempt | null;
  code: string;
  cost: Cost;
  duration_ms: number;
  epoch: number;
  kind: string;
  message: string;
  model: string;
  prompt_digest: string;
  raw_digest: string;
  request_id: string;
  script?: PlayedScriptEntry | null;
  step: number;
  type: "decision_missed";
  usage: Usage;
}

/**
 * A step begins: the decider is asked. `input_preview` is what the execution log shows.
 *
 * `settings` are those that somebody chose for the model.
 */
export interface DecisionRequested {
  agent_key: string;
  epoch: number;
  input_preview: string;
  kind: string;
  model: string;
  request_id: string;
  reserved?: Amounts | null;
  settings?: ModelSettings | null;
  step: number;
  type: "decision_requested";
}

/**
 * Whom a gate is handed to: a person's name, or `role:NAME` for everybody with that role.
 *
 * A name that nobody is known by here is taken with `unknown` alone.
 */
export interface DelegateGateBody {
  reason?: string;
  schema_version?: number;
  to: string;
  unknown?: boolean;
}

/** The deliverable is not what its schema asks for; the model gets `problems` where it may correct it once. */
export interface DeliverableRefused {
  problems: string[];
  step: number;
  type: "deliverable_refused";
}

/**
 * Why the tool-access service refused, and what would be allowed.
 *
 * The rungs of the ladder in their order: `alternatives`, best first, then `specialists`, then a person
 * (`escalation`). `allowed_tools` are the names of the alternatives. `tool` is what was refused, as a run is told it;
 * denials of earlier releases do not name it. `explanation` is for people alone.
 */
export interface Denial {
  allowed_tools: string[];
  alternatives: AlternativeTool[];
  escalation?: DenialEscalation | null;
  explanation?: DenialExplanation | null;
  reason: string;
  rule?: string | null;
  specialists: Specialist[];
  suggestion: string;
  tool: string;
  violation_type: string;
}

/**
 * A denied call of a goal run is followed by the next rung of the ladder: alternative, specialist, person.
 *
 * `target` is the agent that is asked, or the tools that are named instead.
 */
export interface DenialEscalated {
  reason: string;
  rung: "alternative" | "specialist" | "person";
  step: number;
  target: string;
  tool: string;
  type: "help_sought";
}

/**
 * Which person could open what was refused: an `approver` for one call, a `policy_admin` by another rule.
 *
 * The role is empty where no person can: the task's own grant, or the arguments, stand against it.
 */
export interface DenialEscalation {
  role: "" | "approver" | "policy_admin";
  rule?: string | null;
  why: string;
}

/**
 * What people are told of a denial, and no model: which rule, where it stands, and what would allow the call.
 *
 * `detail` is all of it in a sentence, `remedy` what to do. `rule_at` is where the rule stands that refused. Where no
 * rule allows the call, `nearest` is the one that comes nearest to it: one whose condition the arguments fit and that
 * misspells who calls, else one that opens the tool on conditions, else one that opens it to others, else the one that
 * opens to this agent the tool with the name most like it.
 */
export interface DenialExplanation {
  detail: string;
  nearest: string;
  nearest_at: string;
  remedy: string;
  rule_at: string;
}

/** A person's no to a gate; the model sees the reason. */
export interface DenyGateBody {
  digest?: string | null;
  reason?: string;
  schema_version?: number;
}

/** One call that would have been decided otherwise. */
export interface DiffExample {
  at: string;
  execution_id: string;
  rule_now?: string | null;
  rule_then?: string | null;
  run_id: string;
  version_then: number;
}

/** Calls of one agent and one tool that would have been decided otherwise in the same way. */
export interface DiffGroup {
  agent_key: string;
  calls: number;
  change: "newly_denied" | "newly_allowed" | "newly_gated";
  examples: DiffExample[];
  network: string;
  tool: string;
  was: "allow" | "deny" | "require_approval";
}

/** Why; it stands in the audit. */
export interface DrainWorkerBody {
  reason?: string;
  schema_version?: number;
}

/** One earlier turn as a run has it; `run_id` is the run of the thread in which it was said, if it was in one. */
export interface EarlierTurn {
  attachments: StoredAttachment[];
  content: string;
  role: "user" | "assistant";
  run_id?: string | null;
}

/** Other arguments for a call that waits at a gate: all of them, as the tool takes them. */
export interface EditGateBody {
  args: Record<string, unknown>;
  digest?: string | null;
  reason?: string;
  schema_version?: number;
}

/** What may be done about a call whose fate is unclear. */
export type EffectClass = "pure" | "idempotent" | "reconcilable" | "irreversible";

/**
 * A pending effect was sent again (left out when logs are compared); `dead` says why its last message could not be.
 *
 * Without `dead` it was the reconciler's turn.
 */
export interface EffectResent {
  attempt: number;
  dead: string;
  effect_id: string;
  resend_at: string;
  reserved?: Amounts | null;
  type: "effect_resent";
}

/**
 * One setting: the variable that sets it, its value as text, and if that is `set`, of a `file` or the `default`.
 *
 * `value` is None where there is none. Of a `secret` it says no more than that there is one.
 */
export interface EffectiveSetting {
  name: string;
  origin: "set" | "file" | "default";
  secret: boolean;
  value: string | null;
}

/** What one gateway process runs with. Replicas may differ: `instance` is the one that answered. */
export interface EffectiveSettings {
  instance: string;
  schema_version: number;
  service: string;
  settings: EffectiveSetting[];
}

/** Why a run is to be erased; it stands in the log for ever, so it should name nobody. */
export interface EraseRunBody {
  reason: string;
  schema_version?: number;
}

/** A page of erasures; there are more where `next_before` is given. */
export interface ErasureList {
  erasures: ErasureView[];
  next_before?: string | null;
  schema_version: number;
}

/**
 * One erasure. Until `alone_from` who asked can't confirm it; `erased` counts the payloads that are gone.
 *
 * Where the platform is for a `single_person`, who asked can confirm it at once.
 *
 * Of the kind `run`: `runs` counts the run and those below it, which were fixed when it was asked for, and `run_ids`
 * are they; in lists only the first five. `parts` names what is erased, of `runs`, `blobs`, `history` and `tas`: each
 * is the tables of one owner, and `blobs` those of the run log. With the kind `prune` they ended before `before`.
 */
export interface ErasureView {
  alone_from: string;
  before?: string | null;
  caller?: string | null;
  decided_at?: string | null;
  decided_by: string;
  done_at?: string | null;
  erased: number;
  erasure_id: string;
  execution_id?: string | null;
  kind: "payloads" | "run" | "prune";
  parts: string[];
  project: string;
  reason: string;
  requested_at: string;
  requested_by: string;
  run_id?: string | null;
  run_ids: string[];
  runs: number;
  schema_version: number;
  single_person: boolean;
  status: "requested" | "confirmed" | "done" | "withdrawn";
}

/** Events in seq order, the run's current seq and status. */
export interface EventPage {
  entries: LogEntry[];
  run_id: string;
  schema_version: number;
  seq: number;
  status: string;
}

/** One decision to carry out without a model; `decision` is in the form a model writes. */
export interface ExecuteDecisionBody {
  agent_key: string;
  decision: Record<string, unknown>;
  schema_version?: number;
  system_params?: Record<string, unknown>;
  user_message?: string;
  version?: number | null;
}

/**
 * The history row, its steps and their tool executions as recorded; `seq` is how far history has read the log.
 *
 * `next_after_step` continues where one answer doesn't hold every step.
 */
export interface ExecutionHistory {
  history: Record<string, unknown> | null;
  next_after_step?: number | null;
  schema_version: number;
  seq: number;
  steps: Record<string, unknown>[];
  tool_executions: Record<string, unknown>[];
}

/**
 * Asks for one piece of the audit log; the next piece is asked for with the cursor and last hash of this one.
 *
 * Which part of the log; then, with each piece's cursor and the SHA-256 of its last line, the next piece.
 */
export interface ExportAuditBody {
  cursor?: AuditExportCursor | null;
  every_project?: boolean;
  previous?: string;
  schema_version?: number;
  since?: string | null;
  until?: string | null;
}

/** TAS holds the fence: nothing older starts any more. */
export interface FenceStored {
  fence: number;
  live: string[];
  type: "fence_stored";
  voided: string[];
}

/** What became of one file; `digest` is None where it was deleted. */
export interface FileChange {
  digest?: string | null;
  path: string;
  size: number;
}

/** One file as the run's log names it: `version` counts its writes, 1 is the first. */
export interface FileEntry {
  digest: string;
  path: string;
  read_only: boolean;
  size: number;
  version: number;
}

/** The text of one version of a file. */
export interface FileText {
  content: string;
  digest: string;
  path: string;
  run_id: string;
  schema_version: number;
  version: number;
}

/** One version of a file: who wrote it stands in the log at `seq`. */
export interface FileVersion {
  at: string;
  digest: string;
  seq: number;
  size: number;
  version: number;
}

/** The last words of a run: its summary, and its deliverable where one was asked for. */
export interface FinalSummaryRecorded {
  deliverable?: Record<string, unknown> | null;
  rationale: string;
  source: "model" | "platform";
  summary: string;
  type: "summarized";
}

/** End the run with this answer. */
export interface FinishInstruction {
  kind: "finish";
  payload: Record<string, unknown>;
}

/**
 * What the task of a fork says otherwise than that of the run that it is of; what is None stays as it was.
 *
 * Of `budget` and `model_settings` only what is given changes. `max_steps` and `max_tool_errors` count those before
 * the fork too. A `budget` is for forks with one of their own, a `user_message` for those of the first step.
 */
export interface ForkChanges {
  budget?: Budget | null;
  max_steps?: number | null;
  max_tool_errors?: number | null;
  model?: string | null;
  model_settings?: ModelSettings | null;
  timeout_ms?: number | null;
  user_message?: string | null;
}

/**
 * How a run is forked: the new run shares what happened before step `from_step` and decides that step anew.
 *
 * It spends what is left of the budget of the run that it is of, and shares its counts of calls, unless it has a
 * `fresh_budget`. `note` is given to the model; `script` replaces the decisions of a scripted run from that step on.
 * `changes` are made to its task.
 */
export interface ForkOptions {
  changes?: ForkChanges | null;
  fresh_budget?: boolean;
  from_step: number;
  idempotency_key?: string | null;
  note?: string;
  schema_version?: number;
  script?: unknown[] | null;
}

/** The run that another one is forked from, and the first step that the fork decides anew. */
export interface ForkedFrom {
  run_id: string;
  step: number;
}

/** Values that the application passes through; `towpath` are fields of a task, as POST /v1/runs takes them. */
export interface ForwardedProps {
  towpath?: TowpathOptions;
}

/** A function that the caller carries out where the answer asks for it. */
export interface FunctionTool {
  description?: string | null;
  name: string;
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
}

/** A gate closed, with this verdict: the run no longer waits for a person there. */
export interface GateClosed {
  by: string;
  gate_id: string;
  reason: string;
  type: "gate_closed";
  verdict: string;
}

/**
 * One notice to one receiver, which `webhook` names.
 *
 * `error` is why the last try failed; `due_at` when the next one is.
 */
export interface GateNoticeDelivery {
  created_at: string;
  due_at: string;
  ended_at?: string | null;
  error: string;
  gate_id: string;
  kind: "gate.opened" | "gate.closed";
  notice_id: string;
  status: "pending" | "sent" | "dead" | "obsolete";
  tries: number;
  webhook: string;
}

/**
 * Notices, newest first; `next_before` continues. `receivers` are those of the project.
 *
 * Without a `console_url` notices have no link to their gate.
 */
export interface GateNoticePage {
  console_url: string;
  next_before?: string | null;
  notices: GateNoticeDelivery[];
  receivers: GateNoticeReceiver[];
  schema_version: number;
}

/** Who is told of a project's gates, by its name in the operator's file. */
export interface GateNoticeReceiver {
  channel: "webhook" | "email" | "chat";
  name: string;
}

/** The run waits for a person; `detail` is what that person must know. */
export interface GateOpened {
  approval_id?: string | null;
  detail?: Record<string, unknown>;
  execution_id?: string | null;
  expires_at: string;
  gate_id: string;
  gate_type: string;
  reason: string;
  type: "gate_opened";
}

/** Gates, in the order asked for; `next_after` continues. A page ends early where one message holds no more. */
export interface GatePage {
  gates: GateView[];
  next_after?: string | null;
  schema_version: number;
}

/**
 * A gate: what waits, why, until when.
 *
 * `summary` is in one sentence what it asks for; a call stands there with its arguments, which a model wrote. An
 * approval takes `quorum` different people's yes; `votes` are the words so far, in order. `assigned_to` is whom
 * somebody has handed it to: a name, or `role:NAME`.
 */
export interface GateView {
  approval_id?: string | null;
  assigned_at?: string | null;
  assigned_by: string;
  assigned_reason: string;
  assigned_to: string;
  closed_at?: string | null;
  closed_by: string;
  closed_reason: string;
  detail?: Record<string, unknown>;
  execution_id?: string | null;
  expires_at: string;
  gate_id: string;
  gate_type: string;
  network: string;
  opened_at: string;
  project: string;
  quorum: number;
  reason: string;
  run_id: string;
  schema_version: number;
  status: "pending" | "approved" | "denied" | "expired" | "settled" | "void";
  summary: string;
  verdict: string;
  votes: GateVote[];
}

/** What one person decided at an approval gate; `key_prefix` names the key that it came with, if any. */
export interface GateVote {
  actor: string;
  at: string;
  key_prefix: string;
  reason: string;
  verdict: "approved" | "denied" | "edited";
}

/** What the model is told. */
export interface GiveNoteBody {
  schema_version?: number;
  text: string;
}

/** A run that a step has started, with all below it; tokens and cost are known once it has ended. */
export interface GoalChildRun {
  agent_id: string;
  cost_usd: number | null;
  run_id: string;
  status: string;
  step: number;
  tokens: number;
}

/**
 * How sure the model is, 0 to 1; what can't be read is 0.
 *
 * `trigger` is interval, uncertain, requested or failures.
 */
export interface GoalConfidenceMeasured {
  reason: string;
  score: number;
  step: number;
  trigger: string;
  type: "confidence_measured";
}

/** One answered request to a model: an action, or what it was asked to judge. */
export interface GoalModelCall {
  cost_usd?: number | null;
  duration_ms: number;
  kind: string;
  model: string;
  step: number;
  tokens: number;
}

/**
 * How a goal is pursued; a task may set any of it, a network gives the defaults of its tasks.
 *
 * Without `allow_words` a run in which no call succeeded reaches nothing that a model judges: words show no deed. With
 * `require_evidence` what a model finds met counts only where its evidence names a call, an artifact or a file of this
 * run; where words are allowed it is not required, unless it is set. A run begins with both set; the logs of earlier
 * ones do not have them, and go on as they did. `judge_model` judges steps and progress, in place of the model that
 * acts.
 */
export interface GoalSettingsInput {
  allow_words?: boolean | null;
  autonomy?: "low" | "medium" | "high";
  confidence_every?: number;
  confidence_threshold?: number;
  judge_model?: string | null;
  max_steps?: number | null;
  on_timeout?: "stop" | "gate";
  require_evidence?: boolean | null;
  specialists?: string[];
  step_attempts?: number;
  validate_steps?: boolean;
}

export type GoalSettingsOutput = Record<string, unknown>;

/**
 * One step: what was planned, done, and found of it, over all its attempts.
 *
 * `planned_action` and `execution_result` are those of the last attempt; `acceptance_progress` is the progress after
 * the step, 0 to 1. Tokens and cost include the child runs that the step has started.
 */
export interface GoalStep {
  acceptance_progress: number;
  agent_id: string;
  attempt_number: number;
  cost_usd: number | null;
  duration_ms: number;
  error_if_failed?: string | null;
  execution_result?: Record<string, unknown>[];
  planned_action?: Record<string, unknown>;
  reasoning: string;
  step_number: number;
  success?: boolean | null;
  timestamp: string;
  tokens_used: number;
  validation?: Record<string, unknown> | null;
}

/** A goal with its acceptance criteria and constraints; it makes the run one of kind `goal`. */
export interface GoalTaskInput {
  acceptance_criteria?: Criterion[];
  constraints?: Record<string, unknown>;
  goal: string;
  settings?: GoalSettingsInput | null;
}

/** A goal with its acceptance criteria and constraints; it makes the run one of kind `goal`. */
export interface GoalTaskOutput {
  acceptance_criteria: Criterion[];
  constraints?: Record<string, unknown>;
  goal: string;
  settings?: GoalSettingsOutput | null;
}

/** One tool call of the run. */
export interface GoalToolCall {
  arguments?: Record<string, unknown>;
  attempt: number;
  duration_ms: number;
  execution_id: string;
  result: string;
  status: string;
  step: number;
  tool: string;
}

/**
 * The goal view of a run: how it stands, its steps, progress and confidence.
 *
 * How a goal run stands. `status` is the run's, `reason` why it ended; `seq` the last event that was read.
 *
 * `last_confidence_score` is None where it was not asked for, or not judged; costs are None where a price is unknown.
 * `total_tokens` and `total_cost_usd` are of the whole tree: the run, its late corrections, and `child_runs` as far as
 * they have ended. `token_usage` and `llm_calls` are the run's own.
 */
export interface GoalView {
  acceptance_criteria?: string[];
  agent_id: string;
  artifacts?: Record<string, Record<string, unknown>>;
  child_runs?: GoalChildRun[];
  completed_at?: string | null;
  consecutive_failures: number;
  constraints?: Record<string, unknown>;
  criteria_met?: number[];
  current_step: number;
  decision_reasoning?: string[];
  escalation_reason?: string | null;
  escalation_triggered: boolean;
  failure_count: number;
  goal: string;
  last_confidence_check_step: number;
  last_confidence_score?: number | null;
  last_errors?: string[];
  llm_calls?: GoalModelCall[];
  max_steps: number;
  progress_metrics?: Record<string, unknown>;
  progress_score: number;
  progress_source: string;
  project_id: string;
  reason: string;
  resource_limit_hit: boolean;
  schema_version: number;
  seq: number;
  started_at?: string | null;
  status: string;
  steps_history?: GoalStep[];
  task_id: string;
  timeout_reached: boolean;
  token_usage?: number[];
  tool_executions?: GoalToolCall[];
  total_cost_usd: number | null;
  total_tokens: number;
}

/**
 * A grant that somebody may submit a task with: `grant` as it is, `entries` with the reason of each.
 *
 * `runs` counts the runs that were read; unless `complete` there were more, and older ones were left out. `run_id` is
 * the run in which a model was asked.
 */
export interface GrantProposal {
  complete: boolean;
  entries: ProposedGrantEntry[];
  grant: TaskGrantRule[];
  left_out: LeftOutTool[];
  model: string;
  network: string;
  run_id?: string | null;
  runs: number;
  schema_version: number;
  source: "network" | "plan" | "runs" | "model";
  version: number;
}

/**
 * A task for which a model is to name the tools: what the task says, and never what it quotes.
 *
 * `model` answers in place of the network's own; `script` is played in place of a model. The answer comes from a run
 * of its own, so the same `idempotency_key` and question wait for the same run.
 */
export interface GrantQuestion {
  idempotency_key?: string | null;
  model?: string | null;
  network: string;
  schema_version?: number;
  script?: unknown[] | null;
  user_message: string;
  version?: number | null;
}

/** Where the image is: in the address itself. */
export interface ImageAddress {
  /** Passed over. */
  detail?: unknown;
  url: string;
}

/** A call that an earlier answer asked for. */
export interface InputCall {
  arguments?: string;
  call_id: string;
  name: string;
  type: "function_call";
}

/** A document of an input. */
export interface InputFilePart {
  file_data?: string | null;
  filename?: string;
  type: "input_file";
}

/** An image of an input. */
export interface InputImagePart {
  /** Passed over. */
  detail?: unknown;
  image_url?: string | null;
  type: "input_image";
}

/** What somebody said; an answer may come back as it was given, and whatever else it has is passed over. */
export interface InputMessage {
  content: string | (InputTextPart | InputImagePart | InputFilePart)[];
  role: "user" | "assistant" | "system" | "developer";
  type?: "message";
}

/** A text or a file in a message. */
export interface InputPart {
  source?: PartSource | null;
  text?: string;
  type: "text" | "image" | "audio" | "video" | "document";
}

/** What such a call returned. */
export interface InputResult {
  call_id: string;
  output: string | (InputTextPart | InputImagePart | InputFilePart)[];
  type: "function_call_output";
}

/** A text of an input or of an earlier answer. */
export interface InputTextPart {
  text: string;
  type: "input_text" | "output_text";
}

/**
 * A decision passed validation: this is what the platform does.
 *
 * `file_list` is the digest of the list of files that its calls work with, where one does. It is stored before, and
 * kept because it is named here: a call may wait for long until the ledger has it.
 */
export interface InstructionIssued {
  agent_key: string;
  epoch: number;
  file_list?: string | null;
  instruction: CallToolsInstruction | TransferInstruction | FinishInstruction | AbandonInstruction | AskPersonInstruction;
  step: number;
  type: "instruction_issued";
}

/** What the program that asks wants for all answers; the network's agents have their own instructions before it. */
export interface InstructionMessage {
  content: string | (ChatTextPart | ChatImagePart | ChatFilePart)[];
  /** Passed over. */
  name?: unknown;
  role: "system" | "developer";
}

/** The ledger holds what came of a call that the run applied itself. */
export interface InternalOutcomeRecorded {
  execution_id: string;
  type: "outcome_recorded";
}

/**
 * An iteration is over: what was decided, with which tools, and why it counts as it does.
 *
 * `decision` is the action of the model, empty where none could be had; `failures` those in a row up to now. `reason`
 * is completed, refused, failed, denied, timed_out or ended.
 */
export interface IterationCompleted {
  decision: string;
  failures: number;
  index: number;
  reason: string;
  tools: string[];
  type: "iteration_completed";
}

/** An iteration of a background run begins; `index` counts from 1 and is the step's number. */
export interface IterationStarted {
  index: number;
  type: "iteration_started";
}

/** A page of the keys of a project, oldest first; `next_after` is what to ask for the next one with. */
export interface KeyList {
  keys: KeyView[];
  next_after?: string | null;
  schema_version: number;
}

/**
 * A key without its secret; `key` is filled in once, in the answer to its making.
 *
 * `created_with` is the prefix of the key that it was made with; empty for the command `create-key`. `warnings` are
 * said once too.
 */
export interface KeyView {
  caller: string;
  created_at: string;
  created_by: string;
  created_with: string;
  expires_at?: string | null;
  key?: string | null;
  note: string;
  prefix: string;
  project: string;
  revoked_at?: string | null;
  roles: string[];
  schema_version: number;
  scopes: string[];
  warnings: string[];
}

/** A tool that is in no entry, and why: a task under the grant can't use it. */
export interface LeftOutTool {
  reason: string;
  tool: string;
}

/** Recorded model calls, oldest first; `next_after` continues where one answer can't hold them all. */
export interface LlmCalls {
  calls: Record<string, unknown>[];
  next_after?: number | null;
  schema_version: number;
}

/** One event at its place in the log. */
export interface LogEntry {
  at: string;
  event: RunCreated | RunForked | RunStarted | DecisionRequested | DecisionReceived | DecisionRequestFailed | DecisionPostponed | DecisionRefused | InstructionIssued | ToolCallEdited | ToolCallFinished | ToolCallDenied | ToolCallPostponed | AgentTransferred | GateOpened | GateClosed | LoopDetected | WatchdogReported | NoteAdded | NoteGiven | ConfidenceRequested | BackedOff | StepResultValidated | DenialEscalated | ProgressMeasured | GoalConfidenceMeasured | Reflected | FinalSummaryRecorded | BudgetAccountsApplied | BudgetRefused | BudgetWarned | UsageCorrected | ChildStarted | ChildGateWaitChanged | ChildEnded | ChildStopRequested | SwarmHandoffRequested | PlanAccepted | PlanStateChanged | PlanStepStarted | PlanStepEnded | WorkspacePlanChanged | WorkspaceChanged | InternalOutcomeRecorded | IterationStarted | IterationCompleted | RunEndDecided | DeliverableRefused | BackgroundRunEnded | EffectResent | CancelAccepted | FenceStored | RunQuarantined | RunFinished;
  seq: number;
}

/**
 * A loop detector fired: `detector` is its name in the table of docs/runs.md.
 *
 * `count` is what it counted (of a cycle its length), `action` the rung of the ladder that was taken: nudge, replan,
 * gate or stop.
 */
export interface LoopDetected {
  action: string;
  count: number;
  detector: string;
  signature: string;
  type: "loop_detected";
}

/** Who speaks in a message of the transcript; `platform` is Towpath itself, with feedback and notes. */
export type MessageRole = "system" | "user" | "assistant" | "tool" | "platform";

/** A call in an earlier answer. */
export interface MessageToolCall {
  function: CalledFunction;
  id: string;
}

/**
 * How a project stood at a moment.
 *
 * `waits` and `in_flight` are of its toolsets' queues, `gates` wait for people, 400 at most, and fewer where what they
 * show is long; tokens, model calls and dollars are those of the UTC day so far. What nobody could say is null.
 */
export interface MetricSample {
  at: string;
  gates?: number | null;
  in_flight?: number | null;
  model_calls?: number | null;
  tokens?: number | null;
  usd?: number | null;
  waits?: number | null;
}

/**
 * Samples, the oldest first; `refused` counts requests of all projects that were refused for their credential.
 *
 * `kept` says whether samples are taken of this project: the places may be those of others.
 */
export interface MetricSamples {
  every_s: number;
  kept: boolean;
  refused?: number | null;
  samples: MetricSample[];
  schema_version: number;
}

/** Whether the model answered, and what that took; `code`, `detail` and `remedy` say why it did not. */
export interface ModelChecked {
  code: string;
  cost: Cost;
  detail: string;
  duration_ms: number;
  model: string;
  remedy: string;
  schema_version: number;
  usage: Usage;
  works: boolean;
}

/** What a model costs at most, in millionths of a dollar for a million tokens. */
export interface ModelPrice {
  input_micros: number;
  output_micros: number;
}

/**
 * One request to a model, with all its attempts. `tool_signature` is the same for equal calls in any order.
 *
 * It is created when it is asked for, and started when it is sent, which a back-off puts off. `duration_ms` is from
 * start to end. `usage` and `cost` are of all attempts.
 */
export interface ModelRequestNode {
  agent_key: string;
  calls: ProviderCall[];
  cost: Cost;
  created_at: string;
  duration_ms?: number | null;
  ended_at?: string | null;
  error: string;
  kind: string;
  model: string;
  node_id: string;
  started_at?: string | null;
  status: NodeStatus;
  step: number;
  tool_signature: string;
  usage: Usage;
}

/** What a model is asked with; a provider that has no such option, or refuses it, is asked without. */
export interface ModelSettings {
  max_output_tokens?: number | null;
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | null;
  seed?: number | null;
  stop?: string[];
  temperature?: number | null;
  top_p?: number | null;
}

/**
 * The costs of one network, agent (`network/agent`), model, or label (`key=value`).
 *
 * The name is empty for everything that found no room on its day, and for labels that only erased runs had.
 */
export interface NamedCost {
  model_calls: number;
  name: string;
  runs: number;
  tokens: number;
  unpriced: number;
  usd: number;
}

/** What was asked for; `next_before` is where an older page of versions begins. */
export interface NetworkList {
  networks: NetworkVersion[];
  next_before?: number | null;
  schema_version: number;
}

/** An immutable, digest-addressed network. */
export interface NetworkSnapshot {
  agents: Record<string, CompiledAgent>;
  background?: BackgroundRunSettingsOutput | null;
  context_limit: number;
  default_agent_key: string;
  description: string;
  force_respond: boolean;
  force_respond_agent?: string | null;
  goal?: GoalSettingsOutput | null;
  max_steps: number;
  max_tool_errors: number;
  network: string;
  on_loop?: "gate" | null;
  step_timeout_ms: number;
  swarm?: CompiledSwarm | null;
  timeout_ms?: number | null;
  tools: Record<string, ToolSpec>;
}

/** One published version. */
export interface NetworkVersion {
  current: boolean;
  digest: string;
  name: string;
  project: string;
  published_at: string;
  published_by: string;
  schema_version: number;
  snapshot?: NetworkSnapshot | null;
  spec?: Record<string, unknown> | null;
  unchanged: boolean;
  version: number;
}

/** INIT → RUNNING → SUCCESS, FAILED or TIMEOUT. */
export type NodeStatus = "init" | "running" | "success" | "failed" | "timeout";

/** The platform tells the model something (forced respond, a nudge). */
export interface NoteAdded {
  step: number;
  text: string;
  type: "note_added";
}

/** A person said something to the run; the model reads it with its next decision that is asked for from now on. */
export interface NoteGiven {
  act_id: string;
  by: string;
  step: number;
  text: string;
  type: "note_given";
}

/** How a text begins and ends; `size` is what the whole of it has, in bytes. */
export interface OutputPreview {
  head: string;
  size: number;
  tail: string;
}

/**
 * Who may know one part of an output: what stands at the path `of` and beneath; all of it where that is empty.
 *
 * Where a list stands at `of`, or on the way there, each of its items is a part of its own. Readers are `names`, and
 * what stands at the paths `fields` of the part and at the paths `args` of the call's arguments. With none of them
 * nobody may know it. Of several parts that hold a text the deepest counts.
 */
export interface OutputReaders {
  anybody: boolean;
  args: string[];
  fields: string[];
  names: string[];
  of: string;
}

/** Agents that run at the same time, at most `max_concurrency` of them. */
export interface ParallelAgentCalls {
  max_concurrency?: number | null;
  merge_strategy: "collect" | "fail_fast" | "first_success";
  steps: PlanAgentCall[];
}

/**
 * Whose child a run is: `root_id` is the run that a caller submitted, `depth` counts from its 0.
 *
 * `max_parallel` is how many children that one may have at once: no run below it may have more. Where `wants_criteria`
 * is set, the end of a run that did not reach its goal says which of its criteria are met.
 */
export interface ParentRun {
  depth: number;
  index: number;
  max_parallel: number;
  root_id: string;
  run_id: string;
  step: number;
  wants_criteria: boolean;
}

/** Where a file is: in the request itself. */
export interface PartSource {
  mimeType?: string;
  type: string;
  value: string;
}

/** What to pause; `stop_running` also asks the calls that run to stop, which may leave some of them in doubt. */
export interface PauseSwitchBody {
  kind: "project" | "network" | "tool" | "caller";
  name?: string | null;
  reason: string;
  schema_version?: number;
  stop_running?: boolean;
}

/**
 * One agent and one tool of which another matrix says something else, or the same by other rules.
 *
 * `was` and `becomes` are the verdicts that a call may get: several where arguments decide. Of very many rules
 * `more_then` and `more_now` are not named.
 */
export interface PermissionChange {
  agent_key: string;
  becomes: string[];
  more_now: number;
  more_then: number;
  network: string;
  rules_now: string[];
  rules_then: string[];
  tool: string;
  was: string[];
}

/**
 * The cells that would change, of the agents of published networks.
 *
 * `more` of them are not listed; `left_out` networks were not looked at, since that took too long.
 */
export interface PermissionsDiff {
  agents: number;
  changes: PermissionChange[];
  left_out: number;
  more: number;
  schema_version: number;
  version: number;
}

/** A text, or any JSON object. */
export interface PlainFormat {
  type: "text" | "json_object";
}

/** Steps in order. `chain` is set for a workflow: the output of a step is the input of the next. */
export interface Plan {
  bindings?: Record<string, unknown>;
  chain: boolean;
  description: string;
  id: string;
  name: string;
  steps: PlanStep[];
}

/** The plan that is carried out: given by the caller, written by a model, or the flow of a workflow. */
export interface PlanAccepted {
  origin: "given" | "planned" | "flow";
  plan: Plan;
  type: "plan_accepted";
}

/**
 * One agent of a plan: what it is asked, with `with` rendered over earlier results, and where its answer goes.
 *
 * With `acceptance_criteria` what it is asked is its goal, which what happens has to meet. The answer is bound to
 * `result.<result_key>`, and so is reachable for later steps as `{{ result.key.field }}`.
 */
export interface PlanAgentCall {
  acceptance_criteria: Criterion[];
  agent_key: string;
  prompt: string;
  result_key: string;
  timeout_ms?: number | null;
  with?: Record<string, unknown>;
}

/**
 * The state machine of a plan or workflow took a transition; `step_id` is the step it is about.
 *
 * The composition went from one state to another; `step_id` is the step it is about, `error` why it failed.
 */
export interface PlanStateChanged {
  error?: Record<string, unknown> | null;
  source: "plan_init" | "planner_active" | "plan_validated" | "dispatching_step" | "awaiting_results" | "merging_results" | "completed" | "failed";
  step_id: string;
  target: "plan_init" | "planner_active" | "plan_validated" | "dispatching_step" | "awaiting_results" | "merging_results" | "completed" | "failed";
  trigger: "start_plan" | "planner_finished" | "validation_failed" | "dispatch_step" | "step_dispatched" | "step_succeeded" | "step_failed" | "parallel_complete" | "next_step" | "all_done" | "timeout" | "cancelled" | "panic";
  type: "plan_moved";
}

/** A step: exactly one of `agent` and `parallel`, as `type` says. */
export interface PlanStep {
  agent?: PlanAgentCall | null;
  id: string;
  name: string;
  parallel?: ParallelAgentCalls | null;
  timeout_ms?: number | null;
  type: "agent" | "parallel";
}

/** One agent of a step: `run_id` is its child run, None where none was begun. `id` is its step's, or `fan[0]`. */
export interface PlanStepAgentView {
  agent_key: string;
  duration_ms?: number | null;
  ended_at?: string | null;
  error?: Record<string, unknown> | null;
  id: string;
  outputs?: unknown;
  reason: string;
  result_key: string;
  run_id?: string | null;
  started_at?: string | null;
  status: "pending" | "running" | "waiting" | "success" | "failed" | "partial" | "skipped";
}

/** A step has ended, or is skipped; `bindings` are what it adds to the results. */
export interface PlanStepEnded {
  bindings?: Record<string, unknown>;
  index: number;
  report: PlanStepResult;
  type: "plan_step_ended";
}

/** What became of a step, or of one agent of a parallel step (`id` is then `<step>[<place>]`). */
export interface PlanStepResult {
  agent_key: string;
  children: PlanStepResult[];
  error?: Record<string, unknown> | null;
  exec_id: string;
  id: string;
  outputs?: unknown;
  status: "success" | "failed" | "partial" | "skipped";
  type: "agent" | "parallel";
}

/** A step of the plan begins; its children are started by events of their own. `index` counts from 0. */
export interface PlanStepStarted {
  index: number;
  inputs: string[];
  step_id: string;
  type: "plan_step_started";
}

/** One step of a plan, with its agents in their order. */
export interface PlanStepView {
  agents: PlanStepAgentView[];
  duration_ms?: number | null;
  ended_at?: string | null;
  error?: Record<string, unknown> | null;
  id: string;
  name: string;
  started_at?: string | null;
  status: "pending" | "running" | "waiting" | "success" | "failed" | "partial" | "skipped";
  type: "agent" | "parallel";
}

/**
 * What a caller, or a model by `agent_orchestrate`, asks for: a `plan`, or a `prompt` that a model plans.
 *
 * `bindings` go before those of the plan. `timeout_ms` and `max_parallel` can only lower what holds anyway. `plan` is
 * checked as a whole by `plan_faults`, so that every mistake is reported at once with its path.
 */
export interface PlanTask {
  bindings?: Record<string, unknown>;
  max_parallel?: number | null;
  plan?: Record<string, unknown> | null;
  prompt?: string | null;
  timeout_ms?: number | null;
}

/**
 * How a plan stands: `status` is the run's, `state` the state machine's, `seq` the last event that was read.
 *
 * `origin` is where the plan comes from: given, planned (by a model) or flow (a swarm's); empty while there is none.
 * `success` is None until the run has ended. `current_step` is the step under way, or the last one that was.
 */
export interface PlanView {
  bindings?: Record<string, unknown>;
  current_step: string;
  description: string;
  errors: Record<string, unknown>[];
  kind: string;
  name: string;
  origin: string;
  reason: string;
  run_id: string;
  schema_version: number;
  seq: number;
  state: "plan_init" | "planner_active" | "plan_validated" | "dispatching_step" | "awaiting_results" | "merging_results" | "completed" | "failed";
  status: string;
  steps: PlanStepView[];
  success?: boolean | null;
}

/** The entry of a script that was played as a decision: its queue and index. */
export interface PlayedScriptEntry {
  index: number;
  queue: string;
}

/** The version now in force, what is probably wrong with it, and hints. */
export interface PolicyApplied {
  changed: boolean;
  digest: string;
  hints: string[];
  rules: number;
  schema_version: number;
  version: number;
  warnings: string[];
}

/** The permission change log, newest first. */
export interface PolicyChangeLog {
  changes: PolicyChangeLogEntry[];
  next_before?: number | null;
  schema_version: number;
}

/** A version and what it changed against the one before; `more` counts changes that are not listed. */
export interface PolicyChangeLogEntry {
  applied_at?: string | null;
  applied_by: string;
  changes: RuleChange[];
  digest: string;
  more: number;
  note: string;
  rules: number;
  source: string;
  version: number;
}

/**
 * A piece of a diff, or the whole of it once merged.
 *
 * `calls` were weighed. `left_out` counts, by reason, calls whose recorded decision was not the matrix's: another
 * matrix would not have changed it. `next_after` is None in the last piece. Limits are never replayed.
 */
export interface PolicyImpact {
  calls: number;
  groups: DiffGroup[];
  last: number;
  left_out?: Record<string, number>;
  limits: string;
  next_after?: number | null;
  schema_version: number;
  version: number;
}

/**
 * A policy that is not in force, and the recorded calls to evaluate with it.
 *
 * A matrix that might be applied, and the calls to weigh by it; `after` and `last` come from the piece before.
 */
export interface PolicyImpactBody {
  after?: number | null;
  last?: number | null;
  limit?: number;
  schema_version?: number;
  since?: string | null;
  text: string;
  until?: string | null;
}

/** A policy that is not in force. */
export interface PolicyPermissionsBody {
  schema_version?: number;
  text: string;
}

/** One version: who applied it, when, from where and why. */
export interface PolicyVersion {
  applied_at?: string | null;
  applied_by: string;
  digest: string;
  note: string;
  rules: number;
  source: string;
  version: number;
}

/** A page of versions; `current` is the one in force. */
export interface PolicyVersions {
  current: number;
  next_before?: number | null;
  schema_version: number;
  versions: PolicyVersion[];
}

/** One version of the matrix, as YAML text and as rows. */
export interface PolicyView {
  applied_at?: string | null;
  applied_by: string;
  digest: string;
  note: string;
  rules: Record<string, unknown>[];
  schema_version: number;
  text: string;
  version: number;
}

/** How much work the workers of one toolset have: calls that wait for one, and calls that one runs. */
export interface PoolDemand {
  pool: string;
  schema_version: number;
  value: number;
}

/** Whose prompt, for what message; for another *model* than the agent's own, where one is named. */
export interface PreviewPromptBody {
  agent_key?: string | null;
  model?: string | null;
  schema_version?: number;
  user_message?: string;
  version?: number | null;
}

/** application/problem+json (RFC 9457) with Towpath's members. */
export interface Problem {
  code: string;
  detail: string;
  errors: ProblemDetail[];
  extra?: Record<string, unknown>;
  instance?: string | null;
  remedy: string;
  retry_after_s?: number | null;
  retryable: boolean;
  run_id?: string | null;
  schema_version: number;
  status: number;
  title: string;
  trace_id?: string | null;
  type: string;
}

/** One of several problems; `pointer` is a JSON pointer into the input. */
export interface ProblemDetail {
  code: string;
  detail: string;
  pointer: string;
}

/**
 * What a code means, what to do about it, how it comes about, and a message with what mends it.
 *
 * Status 0 marks problems of the command line, and codes that stand in records alone: `of` says in which.
 */
export interface ProblemEntry {
  cause: string;
  code: string;
  example: string;
  of: string;
  remedy: string;
  retryable: boolean;
  schema_version: number;
  status: number;
  title: string;
  type: string;
}

/** Every problem code of the platform, as `GET /problems` shows it. */
export interface ProblemList {
  problems: ProblemEntry[];
  schema_version: number;
}

/**
 * How far the goal is, 0 to 1, by `source` tests, artifacts or model, with that source's metrics.
 *
 * `artifacts` are those that are known by now.
 */
export interface ProgressMeasured {
  artifacts: Record<string, unknown>[];
  metrics?: Record<string, unknown>;
  reason: string;
  score: number;
  source: "tests" | "artifacts" | "model" | "none";
  step: number;
  type: "progress_measured";
}

/**
 * What a project may have: runs that have not ended or begin on one UTC day, tool calls a minute, stored bytes.
 *
 * What is left out has no limit.
 */
export interface ProjectQuota {
  runs_per_day?: number | null;
  stored_bytes?: number | null;
  tool_calls_per_minute?: number | null;
  unfinished_runs?: number | null;
}

/**
 * The prompt that an agent would get in its first step, rendered without asking a model.
 *
 * `model_missing` is what the model lacks before it can be asked, a key for example; empty where nothing is known.
 */
export interface PromptPreviewAnswer {
  agent_key: string;
  digest: string;
  model: string;
  model_missing: string;
  prompt: string;
  schema_version: number;
}

/**
 * One entry of a proposed grant with its reason; `runs` counts the runs that used the tool, where runs were read.
 *
 * With `said_by_model` the reason, and a condition, are a model's words.
 */
export interface ProposedGrantEntry {
  agents: string[];
  calls?: number | null;
  operation: string;
  reason: string;
  runs?: number | null;
  said_by_model: boolean;
  tool: string;
  when?: string | null;
}

/** One HTTP call behind a node, as far as it was recorded: calls of providers travel apart and may be lost. */
export interface ProviderCall {
  call: number;
  duration_ms: number;
  error: string;
  started_at: string;
}

/**
 * Which runs: those that ended more than so many days ago, of some statuses or a network where these are named.
 *
 * With `dry_run`, as it is unless it is false, they are only counted. `behind` is `next_behind` of the answer before.
 */
export interface PruneRunsBody {
  behind?: string | null;
  dry_run?: boolean;
  network?: string | null;
  older_than_days: number;
  reason?: string;
  schema_version?: number;
  statuses?: ("completed" | "failed" | "escalated" | "abandoned" | "cancelled" | "timed_out")[];
}

/**
 * What goes: so many runs, of families of which others are `kept`, by why, and of the runs about so many `bytes`.
 *
 * The bytes are those of tables without blobs, estimated from some of the runs; only a dry run has them.
 *
 * `erasure_id` is what carries it out, to be watched as any erasure; None where nothing goes, or nothing was to. There
 * may be more where `next_behind` is given.
 */
export interface PrunedRuns {
  before: string;
  bytes?: number | null;
  erasure_id?: string | null;
  families: number;
  kept?: Record<string, number>;
  next_behind?: string | null;
  runs: number;
  schema_version: number;
}

/**
 * A network as people write it (`kind: Network`); with `dry_run` nothing is published.
 *
 * With `if_version` it is published only where that version is current; 0 means that there is none yet.
 */
export interface PublishNetworkBody {
  dry_run?: boolean;
  if_version?: number | null;
  schema_version?: number;
  spec: Record<string, unknown>;
}

/** One rule, with the members that it has in a policy file. */
export interface PutRuleBody {
  dry_run?: boolean;
  if_version?: number | null;
  note?: string;
  rule: Record<string, unknown>;
  schema_version?: number;
}

/** Queues and streams; `left_out` counts toolsets that did not fit the answer. */
export interface QueueList {
  left_out: number;
  queues: QueueState[];
  schema_version: number;
  streams: StreamFill[];
}

/**
 * One queue and who takes from it.
 *
 * `toolset` is set where workers take from it. `waits` has not been taken, `in_flight` was taken and is not settled,
 * `redelivered` of these more than once; `listeners` counts open requests for more, which one process may have several
 * of. `missing`: the broker does not know the queue, or has not answered.
 */
export interface QueueState {
  consumer: string;
  in_flight: number;
  last_taken_at?: string | null;
  listeners: number;
  missing: boolean;
  redelivered: number;
  stream: string;
  toolset: string;
  waits: number;
}

/** The quota of a project as it stands; without `uses` there is none. */
export interface QuotaStatus {
  project: string;
  reason: string;
  schema_version: number;
  set_at?: string | null;
  set_by: string;
  uses: QuotaUse[];
}

/** One limit of a quota and what is used of it; `frees_at` is known of what is counted by the day or minute. */
export interface QuotaUse {
  frees_at?: string | null;
  limit: number;
  name: "unfinished_runs" | "runs_per_day" | "tool_calls_per_minute" | "stored_bytes";
  used: number;
}

/** What a reflection answered, and whether the platform followed it. */
export interface Reflected {
  followed: boolean;
  note: string;
  rationale: string;
  refusal: string;
  step: number;
  type: "reflected";
  verdict: string;
}

/** How the runs of one page replayed; `results` are those that are not identical, or the one asked for. */
export interface ReplayPage {
  engine_version: string;
  events: number;
  identical: number;
  next_after?: string | null;
  results: ReplayResult[];
  runs: number;
  schema_version: number;
}

/**
 * What the replay of one run found.
 *
 * `events` agree from the first on; `seq` is the first that does not, with what is recorded and what was made instead.
 * `widened` events differ only by fields that were added to the contracts since. `engine_versions` recorded the run.
 */
export interface ReplayResult {
  differences: string[];
  engine_version: string;
  engine_versions: string[];
  events: number;
  network: string;
  recorded: string;
  replayed: string;
  run_id: string;
  schema_version: number;
  seq?: number | null;
  status: string;
  verdict: "identical" | "diverged" | "parked" | "incomplete" | "unreadable";
  version: number;
  why: string;
  widened: number;
}

/**
 * What is said next, and what is to hold for the run that answers it; the other fields are those of SubmitTask.
 *
 * What is left out is as in the run that is continued, but for steps, time, priority and the shape of the answer,
 * which are the network's. A grant narrows the rights of that run.
 */
export interface ReplyBody {
  agent_key?: string | null;
  attachments?: TaskAttachment[];
  budget?: Budget | null;
  content: string;
  debug?: boolean;
  grant?: TaskGrantRule[] | null;
  idempotency_key?: string | null;
  labels?: Record<string, string>;
  max_steps?: number | null;
  model?: string | null;
  model_settings?: ModelSettings | null;
  priority?: number;
  quoted_inputs?: Record<string, string>;
  response_schema?: Record<string, unknown> | null;
  schema_version?: number;
  script?: unknown[] | null;
  system_params?: Record<string, unknown>;
  timeout_ms?: number | null;
  version?: number | null;
}

/**
 * Whose audit payloads to erase: all that is given must fit, and something must be.
 *
 * Whose payloads: all that is given must fit, and something must be. The reason stands in the log for ever.
 */
export interface RequestErasureBody {
  before?: string | null;
  caller?: string | null;
  execution_id?: string | null;
  reason: string;
  run_id?: string | null;
  schema_version?: number;
}

/** Any verdict, for gates that ask something else than yes or no. */
export interface ResolveGateBody {
  digest?: string | null;
  reason?: string;
  schema_version?: number;
  verdict: "approved" | "denied" | "happened" | "did_not_happen" | "retry" | "stop";
}

/** How much a model may think. */
export interface ResponseReasoning {
  effort?: string | null;
  /** Passed over. */
  generate_summary?: unknown;
  /** Passed over. */
  summary?: unknown;
}

/** A message, or a conversation, or what is new since an earlier response. */
export interface ResponseRequest {
  background?: boolean | null;
  conversation?: unknown;
  include?: unknown;
  input: string | (InputMessage | InputCall | InputResult)[];
  instructions?: string | null;
  max_output_tokens?: number | null;
  max_tool_calls?: unknown;
  metadata?: Record<string, string> | null;
  model: string;
  parallel_tool_calls?: boolean | null;
  previous_response_id?: string | null;
  prompt?: unknown;
  /** Passed over. */
  prompt_cache_key?: unknown;
  /** Passed over. */
  prompt_cache_retention?: unknown;
  reasoning?: ResponseReasoning | null;
  /** Passed over. */
  safety_identifier?: unknown;
  service_tier?: unknown;
  store?: unknown;
  stream?: boolean | null;
  /** Passed over. */
  stream_options?: unknown;
  temperature?: number | null;
  text?: ResponseText | null;
  tool_choice?: "none" | "auto" | "required" | ResponseToolChoice | null;
  tools?: ResponseTool[];
  top_logprobs?: unknown;
  top_p?: number | null;
  towpath?: TowpathOptions | null;
  /** Passed over. */
  truncation?: unknown;
  /** Passed over. */
  user?: unknown;
}

/** That the answer satisfies a JSON Schema. */
export interface ResponseSchemaFormat {
  description?: string | null;
  name: string;
  schema?: Record<string, unknown> | null;
  strict?: boolean | null;
  type: "json_schema";
}

/** The form of the answer. */
export interface ResponseText {
  format?: ResponseSchemaFormat | PlainFormat | null;
  verbosity?: unknown;
}

/** A tool of the caller. */
export interface ResponseTool {
  description?: string | null;
  name: string;
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
  type: "function";
}

/** That the answer asks for one function. */
export interface ResponseToolChoice {
  name: string;
  type: "function";
}

/** The answer to one interrupt; `resolved` without a payload says no word, and waits for somebody else's. */
export interface ResumeAnswer {
  interruptId: string;
  payload?: ResumePayload | boolean | null;
  status: "resolved" | "cancelled";
}

/** An answer to a question: `verdict`, or `approved`; with `editedArgs` the call is approved with those. */
export interface ResumePayload {
  approved?: boolean | null;
  editedArgs?: Record<string, unknown> | null;
  reason?: string;
  verdict?: "approved" | "denied" | "happened" | "did_not_happen" | "retry" | "stop" | null;
}

/**
 * Which stop switch to lift; of a project `name` may be left out.
 *
 * What to resume; of a project `name` may be left out. `reason` stands in the audit; who waits reads it.
 */
export interface ResumeSwitchBody {
  kind: "project" | "network" | "tool" | "caller";
  name?: string | null;
  reason: string;
  schema_version?: number;
}

/**
 * How long one thing is kept, from `since` on; it goes with the next housekeeping after that.
 *
 * `kept_s` is None for what is never removed for its age, and where the period is not known. `origin` says what
 * decides: a `setting` that was `set`, its `default`, nothing that can be set (`fixed`); `unknown` is what the service
 * that knows it does not tell now.
 */
export interface RetentionPeriod {
  kept_s?: number | null;
  name: string;
  origin: "set" | "default" | "fixed" | "unknown";
  owner: string;
  setting?: string | null;
  since: string;
  what: string;
}

/** What is kept for how long; `tas_instance` is the replica of TAS that told of audit and runs. */
export interface RetentionReport {
  periods: RetentionPeriod[];
  schema_version: number;
  tas_instance?: string | null;
}

/** The version to come back to, and why; `if_version` must be the one in force. */
export interface RollBackPolicyBody {
  dry_run?: boolean;
  if_version?: number | null;
  note?: string;
  schema_version?: number;
  version: number;
}

/** What one version did to one rule; `fields` are the members that differ where it was altered. */
export interface RuleChange {
  after?: Record<string, unknown> | null;
  before?: Record<string, unknown> | null;
  change: "added" | "removed" | "altered";
  fields: string[];
  name: string;
}

/** The version now in force; `rewritten` says that the list of rules was written anew, without its comments. */
export interface RuleChanged {
  changed: boolean;
  digest: string;
  hints: string[];
  rewritten: boolean;
  rules: number;
  schema_version: number;
  version: number;
  warnings: string[];
}

/** How one rule was weighed; `at` is where it stands, `policies.yaml:14`, where that is known. */
export interface RuleEvaluation {
  at: string;
  detail: string;
  effect: string;
  matched: boolean;
  rule: string;
}

/** The run exists and will reach a recorded status; it may be active for `timeout_ms`. */
export interface RunAccepted {
  created_at: string;
  duplicate: boolean;
  network: string;
  project: string;
  run_id: string;
  schema_version: number;
  status: string;
  timeout_ms?: number | null;
  trace_id: string;
  version: number;
}

/** A request to run an agent, or to go on where one waits. */
export interface RunAgentInput {
  context?: AppContext[] | null;
  forwardedProps?: ForwardedProps | null;
  messages?: AgUiMessage[];
  resume?: ResumeAnswer[] | null;
  runId: string;
  state?: unknown;
  threadId: string;
  tools?: ClientTool[] | null;
}

/** A finished run: its answer, its transcript, and references to the full tool payloads. */
export interface RunAnswer {
  cost: Cost;
  debug?: DebugModelCallList | null;
  execution_log: Record<string, unknown>[];
  final: Record<string, unknown> | null;
  instructions: Record<string, unknown>[];
  last_output?: unknown;
  latency: RunDuration;
  network: string;
  reason: string;
  run_id: string;
  schema_version: number;
  status: string;
  steps: number;
  tool_refs: string[];
  trace_id: string;
  usage: Usage;
  version: number;
}

/**
 * One account that a run spends from. `limits` are given for those of the run itself: others stand in Postgres.
 *
 * An account of scope `agent` is charged with what its `agent_key` causes alone.
 */
export interface RunBudgetAccount {
  agent_key: string;
  key: string;
  limits?: SpendingLimits | null;
  on_soft: "warn" | "gate";
  scope: "run" | "agent" | "caller" | "project" | "day";
  soft: number;
}

/**
 * The task was accepted; `task` is what the caller asked for, with defaults filled in.
 *
 * `grant` is the task's own; `grants` are of the tasks above it, outermost first: rights only narrow.
 * `planner_model` writes plans, in place of the agent's model. `messages` are earlier turns of the conversation.
 * `budget_root` is the run with which a fork shares accounts and counts of calls; `caps` are recorded where they are
 * lower than the server's.
 * `detectors` is what a child takes over of its parent's loop counters, `spent` what runs above it had cost when it
 * was born. `traceparent` names the span of whoever submitted the run at the top of the tree. With `epoch_turns`
 * agents are asked by conversations that are only added to.
 */
export interface RunCreated {
  agent_key: string;
  attachments: StoredAttachment[];
  background?: BackgroundRunTaskOutput | null;
  budget?: Budget | null;
  budget_root?: string | null;
  caller: string;
  caps?: RunTreeCaps | null;
  carve_outs: ChildRunBudget[];
  context_limit: number;
  continues?: ContinuedRun | null;
  cursors?: Record<string, number>;
  debug: boolean;
  detectors?: Record<string, unknown> | null;
  epoch_turns: boolean;
  forked_from?: ForkedFrom | null;
  goal?: GoalTaskOutput | null;
  grant?: Record<string, unknown>[] | null;
  grants: Record<string, unknown>[][];
  kind: string;
  labels?: Record<string, string>;
  max_steps: number;
  max_tool_errors: number;
  messages: EarlierTurn[];
  model?: string | null;
  model_settings?: ModelSettings | null;
  network: string;
  parent?: ParentRun | null;
  plan?: PlanTask | null;
  planner_model?: string | null;
  priority: number;
  project: string;
  quoted_inputs?: Record<string, string>;
  response_schema?: Record<string, unknown> | null;
  script_digest?: string | null;
  single_instruction: boolean;
  snapshot_digest: string;
  spent?: Cost | null;
  step_timeout_ms: number;
  swarm?: SelectedSwarm | null;
  system_params?: Record<string, unknown>;
  timeout_ms: number;
  traceparent?: string | null;
  type: "run_created";
  user_message: string;
  version: number;
  workspace: FileEntry[];
}

/** How many steps a finished run took and how long it took, waiting included. */
export interface RunDuration {
  completed: string | null;
  started: string | null;
  steps: number;
  total_run_ms: number;
}

/**
 * The run is about to end, and how is known: its summary is asked for first.
 *
 * What ends the run is known: its last words are asked for. `payload` is the model's own answer, if it gave one.
 */
export interface RunEndDecided {
  payload?: Record<string, unknown> | null;
  rationale: string;
  reason: string;
  status: "completed" | "abandoned";
  step: number;
  type: "run_concluding";
}

/** Which runs, as in their list: of those that callers submitted, unless a run above them is named. */
export interface RunFilter {
  kind?: string | null;
  label?: string | null;
  network?: string | null;
  parent_run_id?: string | null;
  root_run_id?: string | null;
  schema_version?: number;
  status?: "queued" | "running" | "waiting" | "cancelling" | "quarantined" | "completed" | "failed" | "escalated" | "abandoned" | "cancelled" | "timed_out" | null;
  thread_id?: string | null;
}

/**
 * The run has its final status. `final` is the answer or the error; `last_output` is always kept.
 *
 * `effects` says of the last step's calls what was known at this moment, in the words of the run's list of effects;
 * `denied` is its `did_not_happen`. The list tells of every step, and of what a fence has voided after the end.
 */
export interface RunFinished {
  cost: Cost;
  effects: Record<string, unknown>[];
  fence: number;
  final: Record<string, unknown>;
  last_output?: unknown;
  reason: string;
  status: "completed" | "failed" | "escalated" | "abandoned" | "cancelled" | "timed_out";
  steps: number;
  type: "run_finished";
  usage: Usage;
}

/**
 * The run takes over what `parent` knew before the step: `inherited` is that part of the engine's state.
 *
 * `parent_seq` is the last event of the parent that is shared. Nothing that the parent asked of the outside is.
 */
export interface RunForked {
  by: string;
  inherited: Record<string, unknown>;
  parent: ForkedFrom;
  parent_seq: number;
  type: "run_forked";
}

/** What a run did, of any run at any time: its execution log, its instructions, and which calls have a payload. */
export interface RunLogView {
  execution_log: Record<string, unknown>[];
  instructions: Record<string, unknown>[];
  run_id: string;
  schema_version: number;
  status: string;
  tool_refs: string[];
}

/** The conversation of a run. `dangling` are calls without a result, `waiting` those that are being worked on. */
export interface RunMessages {
  dangling: string[];
  messages: ChatMessage[];
  run_id: string;
  schema_version: number;
  seq: number;
  usage: Usage;
  waiting: ChatToolCall[];
}

/**
 * A run and its nodes; `usage` and `cost` are summed over them, `iterations` counts steps.
 *
 * `seq` is how far the log was read.
 */
export interface RunNodesView {
  cost: Cost;
  created_at?: string | null;
  duration_ms?: number | null;
  ended_at?: string | null;
  error: string;
  iterations: number;
  nodes: ModelRequestNode[];
  run_id: string;
  schema_version: number;
  seq: number;
  started_at?: string | null;
  status: NodeStatus;
  usage: Usage;
}

/**
 * Runs, newest first; `next_before` continues.
 *
 * A page that is asked for by network, kind or label looks through the newest 10,000 runs, or those of its status:
 * it may be short, or empty, and `next_before` goes on behind them.
 */
export interface RunPage {
  next_before?: string | null;
  runs: RunView[];
  schema_version: number;
}

/** The run is parked: its log and the outside disagree. */
export interface RunQuarantined {
  code: string;
  message: string;
  type: "run_quarantined";
}

/** A piece of a record as JSON lines: header, facts, events. Pieces joined in order are the whole file. */
export interface RunRecordPiece {
  next?: string | null;
  run_id: string;
  schema_version: number;
  text: string;
}

/** The run was admitted; its active time begins. */
export interface RunStarted {
  type: "run_started";
}

/** Reply to SteerRun: what was done, in how many runs (that one and those below it), and the gate that is open. */
export interface RunSteered {
  detail: string;
  gate_id?: string | null;
  runs: number;
  schema_version: number;
}

/** What a platform allows of trees of runs: how deep they nest, how long plans are, how many run at once. */
export interface RunTreeCaps {
  max_depth: number;
  max_parallel: number;
  plan_steps: number;
}

/**
 * One run of a tree, with its children in the order in which they were started; `usage` as in RunView.
 *
 * `purpose` is what its parent wants it for (`plan_step`, `delegate`, `orchestrate`, …), `subject` what it is about,
 * such as the step of a plan: empty for the top.
 * `truncated` says of the top that not every run below it is here: those that stand deepest, and began last, are left
 * out.
 */
export interface RunTreeNode {
  agent_key: string;
  children: RunTreeNode[];
  cost?: Cost | null;
  depth: number;
  erased_at?: string | null;
  kind: string;
  network: string;
  parent_run_id?: string | null;
  purpose: string;
  reason: string;
  run_id: string;
  schema_version: number;
  status: string;
  step: number;
  subject: string;
  truncated: boolean;
  usage?: Usage | null;
  user_message: string;
}

/**
 * A run as its reader sees it.
 *
 * `effects` is filled where it is asked for, once a run is being cancelled or has ended otherwise than completed: what
 * became of its calls, in order. Of very many only the newest are there, and `effects_left_out` counts the others; the
 * log has them all. `waits` says what an unfinished run waits for: its open gates in words, oldest first, then the
 * model whose provider has asked for time, and until when; then those of the runs below it. Over HTTP a run that is
 * asked for alone also says which toolsets its own calls wait for that no worker takes. `usage` and `cost` are known
 * once the run has ended, and null before: its log has what each request used so far. They are the run's own;
 * `tree_usage` and `tree_cost` add those of every run below it, as these end. `message` says in words
 * why a run ended that did not complete: of one that was cancelled by whom, and the reason that was given. Of a run
 * that was erased lists show what is left, with `erased_at`. A run that a caller submitted belongs to the thread
 * `thread_id`, which bears the id of its first run; `previous_run_id` is the run that it continues, and `next_run_id`,
 * which lists leave out, the one that continues it.
 */
export interface RunView {
  agent_key: string;
  caller: string;
  calls: CallCounts;
  cost?: Cost | null;
  created_at: string;
  debug: boolean;
  depth: number;
  effects: ToolCallOutcome[];
  effects_left_out: number;
  ended_at?: string | null;
  erased_at?: string | null;
  final?: Record<string, unknown> | null;
  forked_from?: ForkedFrom | null;
  kind: string;
  labels?: Record<string, string>;
  last_output?: unknown;
  max_steps: number;
  message: string;
  network: string;
  next_run_id?: string | null;
  parent_run_id?: string | null;
  previous_run_id?: string | null;
  project: string;
  reason: string;
  root_run_id?: string | null;
  run_id: string;
  schema_version: number;
  seq: number;
  snapshot_digest: string;
  started_at?: string | null;
  status: string;
  step: number;
  thread_id?: string | null;
  trace_id: string;
  tree_cost?: Cost | null;
  tree_usage?: Usage | null;
  usage?: Usage | null;
  user_message: string;
  version: number;
  waits: string[];
}

/** The JSON Schema that the answer satisfies. */
export interface SchemaFormat {
  description?: string | null;
  name: string;
  schema?: Record<string, unknown> | null;
  strict?: boolean | null;
}

/** What is to be done, and to which runs. */
export interface SelectRunsBody {
  action: "cancel" | "retry" | "label" | "export";
  filter?: RunFilter;
  schema_version?: number;
}

/**
 * The swarm that makes a run one of kind `swarm`; `name` is empty for the network's own.
 *
 * The swarm that a run is of; `name` is empty for the network's own, `path` are the names from there to it.
 */
export interface SelectedSwarm {
  name: string;
  path: string[];
  swarm: CompiledSwarm;
}

/** What to limit; of the project `name` may be left out. Without a `budget` the limit is lifted. */
export interface SetBudgetBody {
  budget?: Budget | null;
  kind: "caller" | "project";
  name?: string | null;
  per_day?: boolean;
  reason?: string;
  schema_version?: number;
}

/** The quota in place of the one before. Without a `quota` it is lifted. */
export interface SetQuotaBody {
  quota?: ProjectQuota | null;
  reason?: string;
  schema_version?: number;
}

/** Why a dead letter is requeued or discarded; the reason stands in the audit. */
export interface SettleDeadLetterBody {
  reason: string;
  schema_version?: number;
}

/** A matrix that is weighed beside the one in force. */
export interface ShadowText {
  note?: string;
  schema_version?: number;
  source?: string;
  text: string;
}

/** The shadow and its divergences, grouped as in a diff; `more` says that older ones were not counted. */
export interface ShadowView {
  digest: string;
  divergences: number;
  groups: DiffGroup[];
  more: boolean;
  note: string;
  on: boolean;
  rules: number;
  schema_version: number;
  set_at?: string | null;
  set_by: string;
  source: string;
}

/** An agent of the network that has the right which was refused; `reachable` where a route leads there at once. */
export interface Specialist {
  agent_key: string;
  conditional: boolean;
  reachable: boolean;
  verdict: "allow" | "require_approval";
  why: string;
}

/** The limit of each unit: money, tokens, model calls and tool calls; None is no limit. */
export interface SpendingLimits {
  model_calls?: number | null;
  tokens?: number | null;
  tool_calls?: number | null;
  usd_micros?: number | null;
}

/** Why; it stands in the record. */
export interface SteerRunBody {
  reason?: string;
  schema_version?: number;
}

/**
 * What came of a step of a goal run, after all its attempts.
 *
 * `source` says who judged: `outcome` (the call failed), `model`, or `none`. `criteria` are the numbers of those that
 * are met now; `error_signature` is empty for a step that succeeded.
 */
export interface StepResultValidated {
  attempt: number;
  criteria: number[];
  error_signature: string;
  reason: string;
  source: string;
  step: number;
  success: boolean;
  type: "step_validated";
  uncertain: boolean;
}

/**
 * An attachment whose bytes are stored in the project under their digest.
 *
 * One of an earlier turn that is not `shown` is only named: it no longer fits, or a model of the run can't take it.
 */
export interface StoredAttachment {
  digest: string;
  media_type: string;
  name: string;
  shown: boolean;
  size: number;
}

/** How full a stream is. When it is, it refuses `new` messages, or drops the `old` ones. */
export interface StreamFill {
  bytes: number;
  discard: "new" | "old";
  max_bytes: number;
  messages: number;
  stream: string;
}

/**
 * A task: network + message + options. Accepting it creates a run.
 *
 * `script` is a JSON array of decisions in wire form, played in order by the scripted provider; `timeout_ms` counts
 * active time; `single_instruction` ends the run after its first instruction (dry invoke). The answer of
 * the run satisfies `response_schema`, in place of the one that its agent has. `quoted_inputs` are texts of others by
 * name, such as a customer's mail: agents read them, and nothing in them counts as said by the caller. A `goal`, a
 * `background` objective or a `plan` makes the run one of that kind; `mounts` are
 * files that it finds in its workspace. `budget` is what the run may spend. `model_settings` win over those of its
 * agents, one by one. `attachments` are images and documents that agents are shown. `messages` are the earlier turns
 * of a conversation, oldest first; a run that `continues` another one has those of that run, and takes over what it
 * does not say itself. `traceparent` names the caller's span, below which the run stands; it is no part of what is
 * asked for: a task that is sent again may bring another.
 */
export interface SubmitTask {
  agent_key?: string | null;
  attachments?: TaskAttachment[];
  background?: BackgroundRunTaskInput | null;
  budget?: Budget | null;
  continues?: string | null;
  debug?: boolean;
  goal?: GoalTaskInput | null;
  grant?: TaskGrantRule[] | null;
  idempotency_key?: string | null;
  labels?: Record<string, string>;
  max_steps?: number | null;
  max_tool_errors?: number | null;
  messages?: TaskTurn[];
  model?: string | null;
  model_settings?: ModelSettings | null;
  mounts?: WorkspaceMount[];
  network: string;
  plan?: PlanTask | null;
  priority?: number;
  quoted_inputs?: Record<string, string>;
  response_schema?: Record<string, unknown> | null;
  schema_version?: number;
  script?: unknown[] | null;
  single_instruction?: boolean;
  system_params?: Record<string, unknown>;
  timeout_ms?: number | null;
  traceparent?: string | null;
  user_message?: string;
  version?: number | null;
}

/**
 * An agent of a handoff swarm answered with the name of another: the `count`-th time in this run.
 *
 * `said` is its whole answer; the transfer itself follows as an event of its own.
 */
export interface SwarmHandoffRequested {
  count: number;
  said: string;
  source: string;
  step: number;
  target: string;
  type: "handed_off";
}

/** What is paused, oldest first. */
export interface SwitchList {
  schema_version: number;
  switches: ActiveSwitch[];
}

/** What a switch was set to; `changed` is False where it stood so already, `stopping` counts calls asked to stop. */
export interface SwitchSet {
  changed: boolean;
  schema_version: number;
  stopping: number;
  switch: ActiveSwitch | null;
}

/** One image or document of a task; `data` are its bytes in base64. */
export interface TaskAttachment {
  data: string;
  media_type: string;
  name: string;
}

/**
 * One thing a task may do: it narrows the matrix for this task and never widens it.
 *
 * `tool` and `operation` are globs of `*`, `?` and `[…]`; `when` is a condition as in the matrix, without macros.
 */
export interface TaskGrantRule {
  operation?: string;
  tool: string;
  when?: string | null;
}

/** One earlier turn as a client gives it; only a user attaches anything. */
export interface TaskTurn {
  attachments?: TaskAttachment[];
  content: string;
  role: "user" | "assistant";
}

/**
 * One call of an instruction: what the platform asks the tool-access service for.
 *
 * `args` are the merged arguments; `system_params` names those of them that the system filled in, so that nothing
 * written for a model shows them.
 */
export interface ToolCall {
  args?: Record<string, unknown>;
  call_index: number;
  execution_id: string;
  system_params: string[];
  tool: string;
}

/**
 * Counts of one group, and its rates (None where nothing was counted).
 *
 * A denial is one by the matrix or before it; `refused` and `expired` are approvals that people did not give.
 */
export interface ToolCallCounts {
  allowed: number;
  approved: number;
  denial_rate?: number | null;
  denied: number;
  expired: number;
  failed: number;
  gated: number;
  key?: Record<string, string>;
  refused: number;
  succeeded: number;
  success_rate?: number | null;
  unknown: number;
  void: number;
}

/** The tool-access service refused a call; the refusal is fed back. */
export interface ToolCallDenied {
  agent_key: string;
  call_index: number;
  denial: Denial;
  epoch: number;
  execution_id: string;
  policy_version: number;
  step: number;
  tool: string;
  type: "tool_call_denied";
}

/** A person changed the arguments of a call before it ran: *args* were executed, and not those asked for. */
export interface ToolCallEdited {
  agent_key: string;
  args: Record<string, unknown>;
  by: string;
  call_index: number;
  execution_id: string;
  step: number;
  tool: string;
  type: "tool_call_edited";
}

/**
 * A call has an outcome. `probe` is what the tool's probe found out, `settled_by` the person who decided it.
 *
 * `preview` is how a result in the blob store begins and ends.
 */
export interface ToolCallFinished {
  agent_key: string;
  blob: boolean;
  call_index: number;
  duration_ms: number;
  epoch: number;
  execution_id: string;
  failure?: ToolFailure | null;
  policy_version: number;
  preview?: OutputPreview | null;
  probe: "" | "happened" | "did_not_happen" | "unclear" | "failed";
  result?: unknown;
  result_bytes: number;
  result_digest?: string | null;
  settled_by: string;
  status: "succeeded" | "failed" | "unknown" | "void";
  step: number;
  tool: string;
  type: "tool_call_finished";
  worker: string;
}

/**
 * What became of one tool call of a run, in the order in which calls were decided.
 *
 * `source` names who reported the outcome: worker, probe or a person.
 */
export interface ToolCallOutcome {
  call_index: number;
  execution_id: string;
  outcome: "happened" | "did_not_happen" | "failed" | "unknown" | "open";
  source: string;
  step: number;
  tool: string;
}

/** The full payload of one tool call. */
export interface ToolCallPayload {
  agent_key: string;
  duration_ms: number;
  execution_id: string;
  merged_params: Record<string, unknown>;
  result?: unknown;
  schema_version: number;
  status: string;
  timestamp: string;
  tool_key: string;
}

/**
 * The project's tool calls of this minute are used up: request number `attempt` is made again at `until`.
 *
 * Nothing of the call has begun. It has as much time as before once it is requested again.
 */
export interface ToolCallPostponed {
  agent_key: string;
  attempt: number;
  call_index: number;
  code: string;
  epoch: number;
  execution_id: string;
  message: string;
  step: number;
  tool: string;
  type: "tool_call_postponed";
  until: string;
}

/**
 * Figures by group, largest first, and of the whole project.
 *
 * `complete` is False where the window held more entries than are counted at once: then `since` says from when on.
 */
export interface ToolCallStatistics {
  by: string[];
  complete: boolean;
  rows: ToolCallCounts[];
  schema_version: number;
  since: string;
  total: ToolCallCounts;
  until: string;
}

/**
 * Why a call has no result. `code` is stable; `hint` is shown to the model.
 *
 * `uncertain` says that the call was cut off in the middle and may have happened all the same. `began` is set by
 * the platform alone, never by a tool: False where this start has certainly done nothing (its function was not
 * called, or its probe found nothing of it); None where it is not known, as before the field existed. `place` is the
 * line of a tool's file that raised, `orders.py:14`, for people: a model can't read that file, and would get another
 * prompt whenever a line moves.
 */
export interface ToolFailure {
  began?: boolean | null;
  code: string;
  external: boolean;
  hint: string;
  message: string;
  place: string;
  retryable: boolean;
  uncertain: boolean;
}

/** What a call of a tool does that can't be taken back by another call; rules may hold it always. */
export type ToolHazard = "destroy" | "spend" | "credentials";

/** What a call returned that an earlier answer asked for. */
export interface ToolMessage {
  content: string | (ChatTextPart | ChatImagePart | ChatFilePart)[];
  /** Passed over. */
  name?: unknown;
  role: "tool";
  tool_call_id: string;
}

/**
 * One tool and the verdicts that rules give for it; `conditional` when arguments decide.
 *
 * `doubt` is why somebody should look at a tool that was accepted on trust.
 */
export interface ToolPermission {
  conditional: boolean;
  doubt: string;
  operation: string;
  rules: string[];
  tool: string;
  verdict: string;
}

/**
 * A tool as its worker offers it.
 *
 * `parameters` is the JSON Schema of all arguments; `system_params` names those that a model never sees and may not
 * set. `operation` is the word the matrix knows this call by. `has_probe` says that its worker can find
 * out whether a call happened; a `reconcilable` tool without one is treated as irreversible. `discovered` says that
 * nobody here wrote the tool: its worker found it (MCP), so only a rule that names it opens it.
 * `definition` is then the digest of the whole definition that its server gave: another one holds the calls.
 *
 * `trusted_output` makes the whole result a system of record, `trusted_fields` only what stands at these paths of it.
 * `sinks` are the paths of the arguments that say where something goes; None is undeclared: then every argument of a
 * tool that is not `pure` counts as one. A path is names joined by dots, `*` is any name, lists are not counted, and
 * it covers all beneath it. `readers` are who may know the result; empty is undeclared. `cost_usd` is what one call
 * costs; budgets count it. `reports` is the declared shape of the result, by which a goal's progress is measured.
 * `internal` tools are the platform's own: the run machine applies them, no worker does. `workspace` asks for the
 * run's files in a folder: to `read`, or as a `scratch` copy whose changes come back with the outcome.
 */
export interface ToolSpec {
  cost_usd: number;
  definition: string;
  description: string;
  discovered: boolean;
  effect_class: EffectClass;
  has_probe: boolean;
  hazards: ToolHazard[];
  internal: boolean;
  name: string;
  operation: string;
  parameters?: Record<string, unknown>;
  polling: boolean;
  readers: OutputReaders[];
  reports: "" | "tests" | "artifacts";
  sensitive: boolean;
  sinks?: string[] | null;
  summary: string;
  system_params: string[];
  timeout_ms: number;
  toolset: string;
  trusted_fields: string[];
  trusted_output: boolean;
  workspace: "" | "read" | "scratch";
}

/** A version of a tool that nobody has accepted. `held` says that the calls of the accepted one wait for it too. */
export interface ToolVersionProposal {
  digest: string;
  held: boolean;
  owner: string;
  proposed_at?: string | null;
  reason: string;
  spec: ToolSpec;
  status: "pending" | "refused";
  version: number;
  worker: string;
}

/** Whether a pending version of a tool is taken; `withdraw` takes the tool away whose version in force it names. */
export interface ToolVersionVerdict {
  accept: boolean;
  reason?: string;
  schema_version?: number;
  version: number;
  withdraw?: boolean;
}

/**
 * Found specs; names without one are missing. `held` names the version that holds a tool's calls.
 *
 * `owners` are who runs the workers that offer them.
 * `doubts`, where proposals were asked for, is why somebody should look at tools that were accepted on trust.
 */
export interface ToolsDescribed {
  doubts?: Record<string, string>;
  held?: Record<string, number>;
  owners?: Record<string, string>;
  proposals: ToolVersionProposal[];
  schema_version: number;
  tools: ToolSpec[];
  versions?: Record<string, number>;
}

/** What OpenAI's API has no word for (`extra_body={"towpath": {…}}`): fields of a task, as POST /v1/runs takes. */
export interface TowpathOptions {
  agent_key?: string | null;
  budget?: Budget | null;
  debug?: boolean;
  grant?: TaskGrantRule[] | null;
  max_steps?: number | null;
  model?: string | null;
  priority?: number;
  script?: unknown[] | null;
  system_params?: Record<string, unknown>;
  timeout_ms?: number | null;
  version?: number | null;
}

/** Let *target* act from the next step on; *context* is shown to it once. */
export interface TransferInstruction {
  context?: unknown;
  kind: "transfer";
  target: string;
}

/** A model of which some answers have no known price. */
export interface UnpricedModel {
  name: string;
  unpriced: number;
}

/**
 * Tokens of one or more model calls, summed over attempts.
 *
 * Of the input, `cached_tokens` were read from the provider's prompt cache and `cache_write_tokens` stored there.
 */
export interface Usage {
  cache_write_tokens: number;
  cached_tokens: number;
  input_tokens: number;
  model_calls: number;
  output_tokens: number;
  total_tokens: number;
}

/** A late report says what an attempt really used that was counted at its worst case, or after it was given up. */
export interface UsageCorrected {
  answered: ChargedAttempt;
  cost: Cost;
  model: string;
  request_id: string;
  type: "usage_corrected";
  usage: Usage;
}

/** What the user said. */
export interface UserMessage {
  content: string | (ChatTextPart | ChatImagePart | ChatFilePart)[];
  /** Passed over. */
  name?: unknown;
  role: "user";
}

/** A network to validate. */
export interface ValidateNetworkBody {
  schema_version?: number;
  spec: Record<string, unknown>;
}

/** A call that an earlier answer asked for. */
export interface WantedCall {
  function: WantedFunction;
  id: string;
  type?: "function";
}

/** A function that an earlier answer asked for, and its arguments as JSON text. */
export interface WantedFunction {
  arguments?: string;
  name: string;
}

/**
 * The watchdog's report was taken: what it found, over how many steps, how clearly (0 to 1).
 *
 * `action` is what it leads to: `nudge` or `gate` at the next step, `resend` of what is overdue, or `note` alone.
 */
export interface WatchdogReported {
  action: string;
  detail: string;
  finding: "similar_actions" | "stalled_progress" | "cycle" | "silent" | "lost";
  key: string;
  score: number;
  step: number;
  steps: number;
  tools: string[];
  type: "watchdog_reported";
}

/** What was drained; `changed` is False where it was so already. */
export interface WorkerDrained {
  changed: boolean;
  schema_version: number;
  worker: WorkerInstance;
}

/**
 * One process of a worker. `calls` run in it, for all of its toolsets together; `slots` is how many may at once.
 *
 * `draining`: it takes no new calls. `drained`: and has ended those that it had. `gone`: it says nothing any more.
 */
export interface WorkerInstance {
  calls: number;
  drained_at?: string | null;
  drained_by: string;
  heard_at: string;
  host: string;
  name: string;
  reason: string;
  slots: number;
  started_at: string;
  state: "taking" | "draining" | "drained" | "gone";
  toolsets: string[];
  version: string;
  worker_id: string;
}

/** Worker processes, those that started first before others; `left_out` of their toolsets did not fit the answer. */
export interface WorkerList {
  left_out: number;
  schema_version: number;
  workers: WorkerInstance[];
}

/** A call changed files of the workspace; each one's version rises by one, a deleted one is gone. */
export interface WorkspaceChanged {
  changes: FileChange[];
  execution_id: string;
  step: number;
  type: "workspace_changed";
}

/** One file of a run's workspace; `versions` are the last of them, oldest first, the current one included. */
export interface WorkspaceFileView {
  created_at: string;
  digest: string;
  path: string;
  read_only: boolean;
  size: number;
  updated_at: string;
  version: number;
  versions: FileVersion[];
}

/** A folder of the caller's host as it was at submit, read-only in the workspace under `mount_path`. */
export interface WorkspaceMount {
  files?: WorkspaceMountFile[];
  mount_path?: string;
}

/** One read-only file that the caller puts into the workspace; `path` is relative to the mount. */
export interface WorkspaceMountFile {
  content: string;
  path: string;
}

/** A call changed the plan of the run: *plan* is all of it (objective, status, steps). */
export interface WorkspacePlanChanged {
  execution_id: string;
  plan: Record<string, unknown>;
  reset: boolean;
  step: number;
  type: "plan_changed";
}

/** The workspace of a run, files in order of their paths; `plan` is its plan, None where it has none. */
export interface WorkspaceView {
  deleted: string[];
  files: WorkspaceFileView[];
  plan?: Record<string, unknown> | null;
  run_id: string;
  schema_version: number;
  seq: number;
  status: string;
}

/** What each operation takes and gives, by its method and path. */
export interface Operations {
  /** Call a network of the project by A2A */
  "POST /a2a": {
    path: undefined;
    query: undefined;
    body: A2aCall;
    answer: Record<string, unknown>;
  };
  /** Every problem code */
  "GET /problems": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: ProblemList;
  };
  /** Explain a problem code */
  "GET /problems/{code}": {
    path: {
      code: string;
    };
    query: undefined;
    body: undefined;
    answer: ProblemEntry;
  };
  /** Run a network to its end */
  "POST /run": {
    path: undefined;
    query: undefined;
    body: SubmitTask;
    answer: RunAnswer;
  };
  /** Search the audit */
  "GET /v1/audit": {
    path: undefined;
    query: {
      run_id?: string | null;
      execution_id?: string | null;
      agent_key?: string | null;
      tool?: string | null;
      verdict?: string | null;
      phase?: string | null;
      actor?: string | null;
      /** of the arguments of a call */
      args_digest?: string | null;
      /** inclusive; with its zone */
      since?: string | null;
      /** inclusive; with its zone */
      until?: string | null;
      /** `next_before` of the page before */
      before?: number | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: AuditPage;
  };
  /** The newest checkpoint */
  "GET /v1/audit/checkpoint": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: CheckpointView;
  };
  /** Prove one entry */
  "GET /v1/audit/entries/{entry_id}/proof": {
    path: {
      entry_id: number;
    };
    query: {
      /** the leaves of a checkpoint you kept */
      size?: number | null;
    } | undefined;
    body: undefined;
    answer: AuditProof;
  };
  /** Export the audit, piece by piece */
  "POST /v1/audit/export": {
    path: undefined;
    query: undefined;
    body: ExportAuditBody;
    answer: AuditPiece;
  };
  /** Prove entries of a run */
  "GET /v1/audit/proof/{run_id}": {
    path: {
      run_id: string;
    };
    query: {
      /** of this call alone */
      execution_id?: string | null;
      /** the leaves of a checkpoint you kept */
      size?: number | null;
    } | undefined;
    body: undefined;
    answer: AuditProof;
  };
  /** What is spent */
  "GET /v1/budgets": {
    path: undefined;
    query: {
      /** only what is limited of this caller */
      caller?: string | null;
      /** the accounts of one run */
      run_id?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: BudgetAccountList;
  };
  /** Set a budget */
  "POST /v1/budgets": {
    path: undefined;
    query: undefined;
    body: SetBudgetBody;
    answer: BudgetSet;
  };
  /** Complete a chat */
  "POST /v1/chat/completions": {
    path: undefined;
    query: undefined;
    body: ChatRequest;
    answer: Record<string, unknown>;
  };
  /** What was spent */
  "GET /v1/costs": {
    path: undefined;
    query: {
      by?: "network" | "agent" | "model" | "label" | "caller";
      /** days, today among them (`7d`), or a day (UTC) */
      since?: string;
    } | undefined;
    body: undefined;
    answer: CostReport;
  };
  /** List dead letters, newest first */
  "GET /v1/dead-letters": {
    path: undefined;
    query: {
      /** Default: dead */
      status?: "dead" | "requeued" | "discarded" | null;
      stream?: string | null;
      /** `next_before` of the page before */
      before?: number | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: DeadLetterPage;
  };
  /** Look at a dead letter */
  "GET /v1/dead-letters/{dead_letter_id}": {
    path: {
      dead_letter_id: number;
    };
    query: undefined;
    body: undefined;
    answer: DeadLetter;
  };
  /** Throw it away */
  "POST /v1/dead-letters/{dead_letter_id}/discard": {
    path: {
      dead_letter_id: number;
    };
    query: undefined;
    body: SettleDeadLetterBody;
    answer: ActionDone;
  };
  /** Send it again */
  "POST /v1/dead-letters/{dead_letter_id}/requeue": {
    path: {
      dead_letter_id: number;
    };
    query: undefined;
    body: SettleDeadLetterBody;
    answer: ActionDone;
  };
  /** List erasures */
  "GET /v1/erasures": {
    path: undefined;
    query: {
      status?: "requested" | "confirmed" | "done" | "withdrawn" | null;
      /** `next_before` of the page before */
      before?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: ErasureList;
  };
  /** Ask for payloads to be erased */
  "POST /v1/erasures": {
    path: undefined;
    query: undefined;
    body: RequestErasureBody;
    answer: ErasureView;
  };
  /** Look at an erasure */
  "GET /v1/erasures/{erasure_id}": {
    path: {
      erasure_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ErasureView;
  };
  /** Confirm an erasure */
  "POST /v1/erasures/{erasure_id}/confirm": {
    path: {
      erasure_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ErasureView;
  };
  /** Withdraw an erasure */
  "POST /v1/erasures/{erasure_id}/withdraw": {
    path: {
      erasure_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ErasureView;
  };
  /** List gates */
  "GET /v1/gates": {
    path: undefined;
    query: {
      /** `all` for every status */
      status?: "pending" | "approved" | "denied" | "expired" | "settled" | "void" | "all";
      run_id?: string | null;
      /** of this run, which a caller submitted, and of every run below it */
      root_run_id?: string | null;
      /** with those of pauses, which only a resume opens */
      paused?: boolean;
      /** `next_after` of the page before */
      after?: string | null;
      limit?: number;
      /** of this tool's calls */
      tool?: string | null;
      /** of this rule */
      rule?: string | null;
      network?: string | null;
      /** handed to this name; `me`: to the caller, or a role of theirs */
      assigned_to?: string | null;
      /** `newest`: closed gates, the last first */
      order?: "oldest" | "newest";
    } | undefined;
    body: undefined;
    answer: GatePage;
  };
  /** Look at a gate */
  "GET /v1/gates/{gate_id}": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: undefined;
    answer: GateView;
  };
  /** Approve */
  "POST /v1/gates/{gate_id}/approve": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: ApproveGateBody | null | undefined;
    answer: ActionDone;
  };
  /** Hand a gate to somebody */
  "POST /v1/gates/{gate_id}/delegate": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: DelegateGateBody;
    answer: GateView;
  };
  /** Deny */
  "POST /v1/gates/{gate_id}/deny": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: DenyGateBody | null | undefined;
    answer: ActionDone;
  };
  /** Change the call */
  "POST /v1/gates/{gate_id}/edit": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: EditGateBody;
    answer: ActionDone;
  };
  /** Resolve */
  "POST /v1/gates/{gate_id}/resolve": {
    path: {
      gate_id: string;
    };
    query: undefined;
    body: ResolveGateBody;
    answer: ActionDone;
  };
  /** A grant from past runs */
  "GET /v1/grants/from-runs/{network}": {
    path: {
      network: string;
    };
    query: {
      /** 30 days ago, unless given; with its zone */
      since?: string | null;
      /** `key=value`: only runs with this label */
      label?: string | null;
      /** leave out what a smaller share used */
      min_share?: number;
      /** bind entries to destinations that never changed */
      tight?: boolean;
    } | undefined;
    body: undefined;
    answer: GrantProposal;
  };
  /** Let a model propose a grant */
  "POST /v1/grants/propose": {
    path: undefined;
    query: undefined;
    body: GrantQuestion;
    answer: GrantProposal;
  };
  /** List keys */
  "GET /v1/keys": {
    path: undefined;
    query: {
      /** `next_after` of the page before */
      after?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: KeyList;
  };
  /** Make a key */
  "POST /v1/keys": {
    path: undefined;
    query: undefined;
    body: CreateKeyBody;
    answer: KeyView;
  };
  /** Revoke a key */
  "DELETE /v1/keys/{prefix}": {
    path: {
      prefix: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Say who asks */
  "GET /v1/me": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: CallerView;
  };
  /** Numbers of the last hour */
  "GET /v1/metrics/samples": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: MetricSamples;
  };
  /** List networks as models */
  "GET /v1/models": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Try a model */
  "POST /v1/models/check": {
    path: undefined;
    query: undefined;
    body: CheckModelBody;
    answer: ModelChecked;
  };
  /** Look at a network as a model */
  "GET /v1/models/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** List networks */
  "GET /v1/networks": {
    path: undefined;
    query: {
      /** List the versions of this network, newest first */
      name?: string | null;
      /** `next_before` of the page before */
      before?: number | null;
      /** Of versions; networks are listed whole */
      limit?: number;
    } | undefined;
    body: undefined;
    answer: NetworkList;
  };
  /** Publish a network */
  "POST /v1/networks": {
    path: undefined;
    query: undefined;
    body: PublishNetworkBody;
    answer: NetworkVersion;
  };
  /** Validate a network */
  "POST /v1/networks/validate": {
    path: undefined;
    query: undefined;
    body: ValidateNetworkBody;
    answer: NetworkVersion;
  };
  /** Look at a network */
  "GET /v1/networks/{name}": {
    path: {
      name: string;
    };
    query: {
      version?: number | null;
    } | undefined;
    body: undefined;
    answer: NetworkVersion;
  };
  /** Carry out one instruction without a model */
  "POST /v1/networks/{name}/invoke": {
    path: {
      name: string;
    };
    query: undefined;
    body: ExecuteDecisionBody;
    answer: RunAnswer;
  };
  /** Show the prompt an agent would get */
  "POST /v1/networks/{name}/prompt": {
    path: {
      name: string;
    };
    query: undefined;
    body: PreviewPromptBody;
    answer: PromptPreviewAnswer;
  };
  /** Call a network by A2A */
  "POST /v1/networks/{network}/a2a": {
    path: {
      network: string;
    };
    query: undefined;
    body: A2aCall;
    answer: Record<string, unknown>;
  };
  /** The agent card of a network */
  "GET /v1/networks/{network}/a2a/.well-known/agent-card.json": {
    path: {
      network: string;
    };
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Run a network for an AG-UI client */
  "POST /v1/networks/{network}/ag-ui": {
    path: {
      network: string;
    };
    query: undefined;
    body: RunAgentInput;
    answer: unknown;
  };
  /** List gate notices */
  "GET /v1/notices": {
    path: undefined;
    query: {
      status?: "pending" | "sent" | "dead" | "obsolete" | "all";
      /** `next_before` of the page before */
      before?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: GateNoticePage;
  };
  /** Send a notice again */
  "POST /v1/notices/{notice_id}/retry": {
    path: {
      notice_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ActionDone;
  };
  /** What an agent may do */
  "GET /v1/permissions/{network}/{agent}": {
    path: {
      network: string;
      agent: string;
    };
    query: {
      agent_type?: string;
    } | undefined;
    body: undefined;
    answer: AgentPermissions;
  };
  /** The matrix */
  "GET /v1/policy": {
    path: undefined;
    query: {
      version?: number | null;
    } | undefined;
    body: undefined;
    answer: PolicyView;
  };
  /** Apply a matrix */
  "POST /v1/policy": {
    path: undefined;
    query: undefined;
    body: ApplyPolicyBody;
    answer: PolicyApplied;
  };
  /** The change log */
  "GET /v1/policy/changes": {
    path: undefined;
    query: {
      /** `next_before` of the page before */
      before?: number | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: PolicyChangeLog;
  };
  /** Ask the matrix */
  "POST /v1/policy/check": {
    path: undefined;
    query: undefined;
    body: AccessQuestion;
    answer: AccessVerdict;
  };
  /** Weigh the past */
  "POST /v1/policy/diff": {
    path: undefined;
    query: undefined;
    body: PolicyImpactBody;
    answer: PolicyImpact;
  };
  /** Which cells would change */
  "POST /v1/policy/diff/permissions": {
    path: undefined;
    query: undefined;
    body: PolicyPermissionsBody;
    answer: PermissionsDiff;
  };
  /** Go back to a version */
  "POST /v1/policy/rollback": {
    path: undefined;
    query: undefined;
    body: RollBackPolicyBody;
    answer: PolicyApplied;
  };
  /** Remove a rule */
  "DELETE /v1/policy/rules/{name}": {
    path: {
      name: string;
    };
    query: {
      note?: string;
      if_version?: number | null;
    } | undefined;
    body: undefined;
    answer: RuleChanged;
  };
  /** Look at a rule */
  "GET /v1/policy/rules/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Put a rule */
  "PUT /v1/policy/rules/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: PutRuleBody;
    answer: RuleChanged;
  };
  /** End the shadow */
  "DELETE /v1/policy/shadow": {
    path: undefined;
    query: {
      note?: string;
    } | undefined;
    body: undefined;
    answer: ShadowView;
  };
  /** What the shadow found */
  "GET /v1/policy/shadow": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: ShadowView;
  };
  /** Set a shadow */
  "PUT /v1/policy/shadow": {
    path: undefined;
    query: undefined;
    body: ShadowText;
    answer: ShadowView;
  };
  /** List versions */
  "GET /v1/policy/versions": {
    path: undefined;
    query: {
      /** `next_before` of the page before */
      before?: number | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: PolicyVersions;
  };
  /** What waits in queues */
  "GET /v1/queues": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: QueueList;
  };
  /** The project's quota */
  "GET /v1/quota": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: QuotaStatus;
  };
  /** Set the project's quota */
  "POST /v1/quota": {
    path: undefined;
    query: undefined;
    body: SetQuotaBody;
    answer: QuotaStatus;
  };
  /** Replay stored runs */
  "GET /v1/replays": {
    path: undefined;
    query: {
      network?: string | null;
      /** Runs created since, with a zone */
      since?: string | null;
      /** `next_after` of the page before */
      after?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: ReplayPage;
  };
  /** Create a response */
  "POST /v1/responses": {
    path: undefined;
    query: undefined;
    body: ResponseRequest;
    answer: Record<string, unknown>;
  };
  /** Look at a response */
  "GET /v1/responses/{response}": {
    path: {
      response: string;
    };
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Cancel a response */
  "POST /v1/responses/{response}/cancel": {
    path: {
      response: string;
    };
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** List runs, newest first */
  "GET /v1/runs": {
    path: undefined;
    query: {
      status?: "queued" | "running" | "waiting" | "cancelling" | "quarantined" | "completed" | "failed" | "escalated" | "abandoned" | "cancelled" | "timed_out" | null;
      network?: string | null;
      /** `key=value` */
      label?: string | null;
      kind?: "network" | "swarm" | "goal" | "background" | "plan" | null;
      /** Only children of this run */
      parent_run_id?: string | null;
      /** Only runs below this one, which a caller submitted */
      root_run_id?: string | null;
      /** 0: only what callers submitted */
      depth?: number | null;
      /** Only this run, which begins a thread, and that thread */
      thread_id?: string | null;
      /** `next_before` of the page before */
      before?: string | null;
      limit?: number;
    } | undefined;
    body: undefined;
    answer: RunPage;
  };
  /** Submit a task */
  "POST /v1/runs": {
    path: undefined;
    query: undefined;
    body: SubmitTask;
    answer: RunView | RunAccepted;
  };
  /** Cancel, retry or label runs */
  "POST /v1/runs/bulk": {
    path: undefined;
    query: undefined;
    body: BulkRunsBody;
    answer: BulkDone;
  };
  /** Count runs for a bulk action */
  "POST /v1/runs/bulk/select": {
    path: undefined;
    query: undefined;
    body: SelectRunsBody;
    answer: BulkSelection;
  };
  /** Prune old runs */
  "POST /v1/runs/prune": {
    path: undefined;
    query: undefined;
    body: PruneRunsBody;
    answer: PrunedRuns;
  };
  /** Look at a run */
  "GET /v1/runs/{run_id}": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: RunView;
  };
  /** Ask a run to stop */
  "POST /v1/runs/{run_id}/cancel": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: CancelRunBody | null | undefined;
    answer: ActionDone;
  };
  /** Ask a goal run how confident it is */
  "POST /v1/runs/{run_id}/confidence": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: SteerRunBody | null | undefined;
    answer: RunSteered;
  };
  /** Ask for a run to be erased */
  "POST /v1/runs/{run_id}/erase": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: EraseRunBody;
    answer: ErasureView;
  };
  /** Read or follow the events of a run */
  "GET /v1/runs/{run_id}/events": {
    path: {
      run_id: string;
    };
    query: {
      after?: number;
      limit?: number;
      /** Seconds to wait for the first event of a page */
      wait?: number;
      /** Stream the runs below this one too */
      children?: boolean;
      /** Stream what a model is writing too, before it counts */
      deltas?: boolean;
      /** Stream typed events (text, tool_call, tool_result, step, …); false: text and tool_call alone */
      detailed?: boolean | null;
      /** Which types of typed events, commas between; the error that ends a run is always sent */
      event_types?: string | null;
      /** `ag-ui`: a stream of AG-UI's events, from `after` to the end or to what a person has to decide */
      format?: "ag-ui" | null;
    } | undefined;
    body: undefined;
    answer: EventPage;
  };
  /** The execution log of a run */
  "GET /v1/runs/{run_id}/execution-log": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: RunLogView;
  };
  /** Fork a run from a step */
  "POST /v1/runs/{run_id}/fork": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: ForkOptions;
    answer: RunAccepted;
  };
  /** Put a gate on a run */
  "POST /v1/runs/{run_id}/gate": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: SteerRunBody | null | undefined;
    answer: RunSteered;
  };
  /** How a goal run stands */
  "GET /v1/runs/{run_id}/goal": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: GoalView;
  };
  /** The execution history of a run */
  "GET /v1/runs/{run_id}/history": {
    path: {
      run_id: string;
    };
    query: {
      /** `next_after_step` of the page before */
      after_step?: number;
      /** At most so many steps */
      limit?: number | null;
    } | undefined;
    body: undefined;
    answer: ExecutionHistory;
  };
  /** A run as a conversation */
  "GET /v1/runs/{run_id}/messages": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: RunMessages;
  };
  /** Reply to a run that has ended */
  "POST /v1/runs/{run_id}/messages": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: ReplyBody;
    answer: RunView | RunAccepted;
  };
  /** The state of a run, with a node for every model call */
  "GET /v1/runs/{run_id}/nodes": {
    path: {
      run_id: string;
    };
    query: {
      /** Also the HTTP calls behind each node, as far as recorded */
      calls?: boolean;
    } | undefined;
    body: undefined;
    answer: RunNodesView;
  };
  /** Tell a run something */
  "POST /v1/runs/{run_id}/note": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: GiveNoteBody;
    answer: RunSteered;
  };
  /** Pause a run */
  "POST /v1/runs/{run_id}/pause": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: SteerRunBody | null | undefined;
    answer: RunSteered;
  };
  /** How a plan or workflow stands */
  "GET /v1/runs/{run_id}/plan": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: PlanView;
  };
  /** Take a run's record along */
  "GET /v1/runs/{run_id}/record": {
    path: {
      run_id: string;
    };
    query: {
      /** `next` of the piece before */
      cursor?: string;
    } | undefined;
    body: undefined;
    answer: RunRecordPiece;
  };
  /** Replay a run */
  "GET /v1/runs/{run_id}/replay": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ReplayResult;
  };
  /** Let a paused run go on */
  "POST /v1/runs/{run_id}/resume": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: SteerRunBody | null | undefined;
    answer: RunSteered;
  };
  /** The model calls of a step */
  "GET /v1/runs/{run_id}/steps/{step}/model-calls": {
    path: {
      run_id: string;
      step: number;
    };
    query: {
      /** `next_after` of the page before */
      after?: number;
    } | undefined;
    body: undefined;
    answer: LlmCalls;
  };
  /** The full payload of a tool call */
  "GET /v1/runs/{run_id}/tools/{execution_id}": {
    path: {
      run_id: string;
      execution_id: string;
    };
    query: undefined;
    body: undefined;
    answer: ToolCallPayload;
  };
  /** The output of a tool call as a text, in parts */
  "GET /v1/runs/{run_id}/tools/{execution_id}/output": {
    path: {
      run_id: string;
      execution_id: string;
    };
    query: undefined;
    body: undefined;
    answer: unknown;
  };
  /** A run and its child runs */
  "GET /v1/runs/{run_id}/tree": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: RunTreeNode;
  };
  /** The files of a run */
  "GET /v1/runs/{run_id}/workspace": {
    path: {
      run_id: string;
    };
    query: undefined;
    body: undefined;
    answer: WorkspaceView;
  };
  /** Read a file of a run */
  "GET /v1/runs/{run_id}/workspace/{path}": {
    path: {
      run_id: string;
      path: string;
    };
    query: {
      /** An earlier version of the file */
      version?: number | null;
    } | undefined;
    body: undefined;
    answer: FileText;
  };
  /** How much work a pool of workers has */
  "GET /v1/scaling/{pool}": {
    path: {
      pool: string;
    };
    query: undefined;
    body: undefined;
    answer: PoolDemand;
  };
  /** What this gateway runs with */
  "GET /v1/settings": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: EffectiveSettings;
  };
  /** What is kept for how long */
  "GET /v1/settings/retention": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: RetentionReport;
  };
  /** Success and denial rates */
  "GET /v1/statistics": {
    path: undefined;
    query: {
      since?: string | null;
      until?: string | null;
      by?: ("tool" | "operation" | "agent" | "network" | "caller" | "rule")[] | null;
    } | undefined;
    body: undefined;
    answer: ToolCallStatistics;
  };
  /** What is paused */
  "GET /v1/switches": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: SwitchList;
  };
  /** Pause */
  "POST /v1/switches/pause": {
    path: undefined;
    query: undefined;
    body: PauseSwitchBody;
    answer: SwitchSet;
  };
  /** Resume */
  "POST /v1/switches/resume": {
    path: undefined;
    query: undefined;
    body: ResumeSwitchBody;
    answer: SwitchSet;
  };
  /** List tools */
  "GET /v1/tools": {
    path: undefined;
    query: {
      proposals?: boolean;
      /** these alone; all where none is named */
      name?: string[] | null;
    } | undefined;
    body: undefined;
    answer: ToolsDescribed;
  };
  /** Accept or refuse a changed tool */
  "POST /v1/tools/{name}/proposal": {
    path: {
      name: string;
    };
    query: undefined;
    body: ToolVersionVerdict;
    answer: ActionDone;
  };
  /** Who works */
  "GET /v1/workers": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: WorkerList;
  };
  /** Drain a worker */
  "POST /v1/workers/{worker_id}/drain": {
    path: {
      worker_id: string;
    };
    query: undefined;
    body: DrainWorkerBody | null | undefined;
    answer: WorkerDrained;
  };
}
