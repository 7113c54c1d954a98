// Types of the package. `docs/node.md` of the repository is the guide.

/** A value of JSON. An integer beyond 53 bits is a `bigint`. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

/** Something that is written as JSON: plain objects, arrays, and whatever has `toJSON`. */
export type JsonInput = unknown;

export type Path = string | URL;

/** Limits by their keys, such as `{ memory: "16 MiB", "wall-time": "2 s" }`: a number is of the limit's unit. */
export type Limits = Record<string, number | string>;

export declare const version: string;

// Plugins.

/** Something that a plugin may reach, as far as its manifest asks for it. */
export declare class Grant {
  private constructor();
  /** A tool: of the host, or of this program. */
  static tool(name: string): Grant;
  /** A skill. */
  static skill(name: string): Grant;
  /** Reading below a directory, under the name by which the plugin asks for it. */
  static read(name: string, directory: Path, options?: { patterns?: string[] }): Grant;
  /** Reading and writing below a directory. */
  static readWrite(name: string, directory: Path, options?: { patterns?: string[] }): Grant;
  /** A store in which the plugin keeps values from one call to the next. */
  static store(name: string, options?: { perRun?: boolean }): Grant;
}

export interface PluginOptions {
  grants?: readonly Grant[];
  /** Limits of its own, where they are tighter than the host's. */
  limits?: Limits;
  /** The texts that the plugin reads through `wasi:config/store`. */
  settings?: Record<string, string>;
}

/** A plugin: a component in a file or in memory, with exactly these grants. */
export declare class Plugin {
  /** @param name the name in receipts, denials and errors */
  constructor(name: string, component: Path | Uint8Array, options?: PluginOptions);
  /**
   * The plugin whose operation `code/run` runs programs in JavaScript, which call the tools granted here. A program has
   * no shell, no network and no files.
   */
  static code(options?: { grants?: readonly Grant[]; limits?: Limits }): Plugin;
  readonly name: string;
  /** `null` of a plugin that is part of Opcell. */
  readonly component: Path | Uint8Array | null;
  readonly grants: readonly Grant[];
}

// Tools.

/** The caller of a tool. */
export interface ToolContext {
  readonly caller: "plugin" | "step" | "model";
  /** The name of the plugin that calls. */
  readonly plugin?: string;
  /** The ID of the run, or of the call outside of a run. */
  readonly run: string;
  /** The key by which a call that is made again is recognised. */
  readonly idempotencyKey: string;
  readonly user?: string;
  readonly tenant?: string;
  /** Aborted when the caller no longer waits. */
  readonly signal: AbortSignal;
}

/** A schema of zod 4 or of another library with Standard Schema. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type JsonSchema = { readonly [key: string]: unknown };

export interface ToolOptions<Schema> {
  /** The sentence that a model reads. */
  description: string;
  /** Schema of the arguments, which are an object; without one there are no arguments. */
  schema?: Schema;
  /** `once` by default: a call that may have happened is not made again. */
  effects?: "pure" | "idempotent" | "once";
  /** Offered to plugins that are granted it; `true` by default. */
  plugins?: boolean;
  /** Offered to steps and models of documents; `true` by default. */
  documents?: boolean;
}

export type ToolArguments<Schema> =
  Schema extends StandardSchema<unknown, infer Output> ? Output : { [key: string]: any };

export type ToolFunction<Schema> = (
  args: ToolArguments<Schema>,
  context: ToolContext,
) => JsonInput | Promise<JsonInput>;

/** A function of this program that plugins, steps and models call by a name. */
export declare class Tool {
  private constructor();
  readonly name: string;
  readonly description: string;
  readonly schema: JsonSchema;
  readonly effects: "pure" | "idempotent" | "once";
}

/** Makes a tool of a function. */
export declare function tool<Schema extends StandardSchema | JsonSchema | undefined = undefined>(
  name: string,
  options: ToolOptions<Schema>,
  execute: ToolFunction<Schema>,
): Tool;

/** Thrown by a function of this program to fail with a code of its own: the caller gets it, a plugin or a model. */
export declare class ToolFailure extends Error {
  constructor(code: string, message: string, options?: { retriable?: boolean });
  readonly code: string;
  readonly retriable: boolean;
}

// Models.

export interface ToolCall {
  id: string;
  name: string;
  arguments: Json;
}

export interface Message {
  role: "user" | "assistant" | "tool";
  content: string;
  toolCalls: ToolCall[];
  /** The call that a message of a tool answers. */
  toolCallId?: string;
  isError: boolean;
}

/** One request to a model. */
export interface Round {
  /** The model that the session names. */
  model: string;
  system: string;
  messages: Message[];
  tools: { name: string; description: string; parameters: JsonSchema }[];
  /** JSON Schema that the answer must pass, with its name. */
  schema?: { name: string; schema: JsonSchema };
  /** Temperature and the like, as the session declares them. */
  settings: { [key: string]: Json };
  run: string;
  /** Aborted when no one waits for the answer any more. */
  signal: AbortSignal;
  /** Shows a piece of the text before the answer is complete. */
  text(piece: string): void;
}

export interface Answer {
  content?: string;
  toolCalls?: { id: string; name: string; arguments: JsonInput }[];
  usage?: { inputTokens?: number; outputTokens?: number; cost?: number };
  /** The model that answered. */
  model?: string;
}

export type Model = (round: Round) => string | Answer | Promise<string | Answer>;

// Calls.

/** A refusal: what was asked for, the rule that refused it, and what would change that. */
export declare class Denial {
  /** Such as `files workspace` or `http GET https://example.com`. */
  readonly capability: string;
  /** The rule that refused it, as a clause. */
  readonly rule: string;
  /** The change that would allow it, as data. */
  readonly remedy: { readonly kind: string; readonly [key: string]: Json };
  /** The refusal in a sentence. */
  readonly message: string;
  /** The same change as a command of `opcell` or a setting of the project file. */
  readonly command?: string;
  toString(): string;
}

/** The receipt of one call: what it used and touched, also if it failed. */
export declare class Receipt {
  /** The plugin's name; absent in a tool's receipt. */
  readonly plugin?: string;
  /** The operation or judge that was called. */
  readonly operation?: string;
  /** The tool that was called; absent in a cell's receipt. */
  readonly tool?: string;
  /** Wall time in microseconds. */
  readonly durationUs: number;
  /** Of this, the time in which the call waited for a cell. */
  readonly queuedUs: number;
  /** Most linear memory at one time, in bytes. */
  readonly peakMemory: number;
  /** Calls of host functions, by their kind. */
  readonly hostCalls: { readonly [kind: string]: number };
  /** Bytes handed to the guest. */
  readonly bytesIn: number;
  /** Bytes handed to the host. */
  readonly bytesOut: number;
  /** Requests made and files used. */
  readonly touched: { readonly [key: string]: Json };
  /** The refusals, in their order. */
  readonly denials: Denial[];
  /** The kind of the failure, if it failed. */
  readonly error?: string;
  /** Every field, as the journal keeps them. */
  readonly raw: { readonly [key: string]: Json };
}

export interface CallOptions {
  /** The time of the call, in milliseconds. */
  timeoutMs?: number;
  user?: string;
  tenant?: string;
  /** The key by which a call that is made again is recognised. */
  idempotencyKey?: string;
  /** Stops the cell. */
  signal?: AbortSignal;
}

/** The end of a call as a value: its result or its failure, each with the receipt. */
export declare class Reply<Data = any> {
  private constructor();
  readonly ok: boolean;
  /** The result; `null` of a failure. */
  readonly data: Data;
  /** The result in a sentence, for people. */
  readonly summary?: string;
  /** More about the result, for debugging. */
  readonly details?: Json;
  /** Absent if nothing ran. */
  readonly receipt?: Receipt;
  /** The failure, which `Host.call` would throw. */
  readonly error?: CallError;
  /** The refusal, if the call failed because it was refused something. */
  readonly denial?: Denial;
  /** Returns the result, or throws the failure. */
  result(): Data;
}

// Hosts.

export interface HostOptions {
  /** The project file, with plugins, grants, limits, workflows and models. */
  project?: Path;
  plugins?: readonly Plugin[];
  tools?: readonly Tool[];
  /** A model that answers whatever a session names. */
  model?: Model;
  /** Models by the names of their providers: `mine` answers for `mine/large`. */
  providers?: Record<string, Model>;
  workflows?: readonly Path[];
  skills?: readonly Path[];
  limits?: Limits;
  /** Cells at one time. */
  cells?: number;
  /** The SQLite file that keeps runs. */
  journal?: Path;
  lock?: Path;
  cache?: Path;
  /** Leaves out plugins that ask for more than was agreed, instead of refusing the host. */
  leaveOutNewPermissions?: boolean;
  /** Compiles plugins in this process instead of a child: only for plugins that are trusted as this program is. */
  trustedInProcess?: boolean;
}

export interface StartOptions {
  /** Releases the run when it is suspended. */
  detach?: boolean;
  /**
   * Asks models to answer in pieces: the run's events have each as a `Text` or a `CallPiece`; with `"all"` those of
   * reasoning as well, as `Reasoning`.
   */
  text?: boolean | "all";
  id?: string;
  user?: string;
  tenant?: string;
}

/** A tenant or a user of the program: a plugin reaches on its behalf exactly what is granted here. */
export interface TenantOptions {
  /** Grants by plugins. */
  grants?: Record<string, readonly Grant[]>;
  /** Settings by plugins. */
  settings?: Record<string, Record<string, string>>;
  /** Limits of every plugin's cells, where they are tighter than the plugin's. */
  limits?: Limits;
  /** A model that answers every round of its sessions. */
  model?: Model;
  /** Models in place of the host's providers of these names. */
  providers?: Record<string, Model>;
  /** Its own keys for providers of the host. They stay in memory. */
  modelKeys?: Record<string, string>;
}

/** Plugins with their grants, workflows, functions of this program, and the engine that runs them. */
export declare class Host {
  constructor(options?: HostOptions);
  constructor(project: Path, options?: HostOptions);
  /** Offers a function as a tool. Only before the host is built. */
  tool<Schema extends StandardSchema | JsonSchema | undefined = undefined>(
    name: string,
    options: ToolOptions<Schema>,
    execute: ToolFunction<Schema>,
  ): this;
  /** Loads the plugins and reads the workflows, unless that has happened; returns the host. */
  open(): Promise<this>;
  /** Calls an operation and returns its data. Throws `CallError`. */
  call<Data = any>(operation: string, args?: JsonInput, options?: CallOptions): Promise<Data>;
  /** As `call`, with the failure as a value: the reply has result or failure, denial and receipt. */
  invoke<Data = any>(operation: string, args?: JsonInput, options?: CallOptions): Promise<Reply<Data>>;
  /** Every operation and judge of the plugins, with its schemas and effects. */
  operations(): Promise<Operation[]>;
  /** The plugins that were left out because they ask for more than was agreed, each with why. */
  leftOut(): Promise<Record<string, string>>;
  /** A workflow by the path of its document, or by its name in the project. */
  workflow(workflow: Path | Workflow): Promise<Workflow>;
  /** Checks the names that a workflow uses against what this host has. */
  check(workflow: Path | Workflow): Promise<Finding[]>;
  /** Starts a run, which continues in the background. */
  start(workflow: Path | Workflow, input?: JsonInput, options?: StartOptions): Promise<Run>;
  /** Runs a workflow until it has ended or waits for answers. An abort ends the waiting; the run continues. */
  run(
    workflow: Path | Workflow,
    input?: JsonInput,
    options?: StartOptions & { signal?: AbortSignal },
  ): Promise<Outcome>;
  /** Drives a run of the journal that has no driver. */
  resume(run: string, options?: { detach?: boolean; text?: boolean | "all" }): Promise<Run>;
  /** Drives every run of the journal that the last process left: by ID the run, or why it stays as it is. */
  resumeAll(options?: { detach?: boolean }): Promise<Map<string, Run | OpcellError>>;
  /** A run of the journal, whichever process drives it: to answer it, to read it, to stop it. */
  runById(id: string): Promise<Run>;
  /**
   * Makes a tenant known, or replaces it: calls and runs on its behalf have what it grants, and nothing else. Throws
   * `HostError` or `RejectedError` if it cannot be served; it then stays as it was.
   */
  setTenant(name: string, options?: TenantOptions): Promise<void>;
  /** Forgets a tenant; calls and runs that name it are refused from now on. `false` if there was none. */
  removeTenant(name: string): Promise<boolean>;
  /** Ends in order: calls and runs in flight have `graceMs` (5000), then they are stopped with their receipts. */
  close(options?: { graceMs?: number }): Promise<void>;
}

export interface Operation {
  id: string;
  effects?: "pure" | "idempotent" | "once";
  summary?: string;
  [key: string]: unknown;
}

/** Reads what a project file asks for beyond its own folder, with the digest that a user consents to. */
export declare function projectRequests(project: Path): Promise<{ digest: string; requests: string[] }>;

// Runs.

/** A compiled workflow. The name of the document decides its language. */
export declare class Workflow {
  private constructor();
  /** Compiles a text as a document of this name, such as `greet.edn`. Throws `RejectedError`. */
  static compile(name: string, text: string): Workflow;
  /** Reads and compiles a document. */
  static load(path: Path): Promise<Workflow>;
  readonly name: string;
  readonly steps: string[];
  readonly warnings: Finding[];
}

/** A question that a suspended run waits for. */
export declare class Question {
  readonly kind: "signal" | "grant" | "call" | "input" | "doubt";
  /** The step that waits. */
  readonly step: string;
  /** Names this question and no other. */
  readonly id?: string;
  /** The name of the signal or approval. */
  readonly name?: string;
  /** The text of the question. */
  readonly text?: string;
  /** Of a grant: the refusal that the run asks to lift. */
  readonly denial?: Denial;
  /** Of a call or a form: the tool. */
  readonly tool?: string;
  /** Of a call: the arguments of the model. */
  readonly arguments?: Json;
  /** Of a form: the JSON Schema of its values. */
  readonly schema?: Json;
  /** Of a doubt: the effect, for `Run.settle`. */
  readonly effect?: number;
  readonly raw: { readonly [key: string]: Json };
}

/** The state of a run: how it ended, or the questions that it waits for. */
export declare class Outcome {
  readonly run: string;
  readonly workflow: string;
  /** `completed`, `failed`, `blocked`, `cancelled`, `suspended`, `released`, or the state of a run in flight. */
  readonly status: string;
  /** The result, once it has ended. */
  readonly result: any;
  /** The code of the failure. */
  readonly reason?: string;
  /** The failure in a sentence. */
  readonly message?: string;
  /** The step at which it ended. */
  readonly step?: string;
  /** The refusal that the run failed by. */
  readonly denial?: Denial;
  /** The receipt of the last call of the step at which the run ended. */
  readonly receipt?: Receipt;
  readonly questions: Question[];
  readonly completed: boolean;
  readonly suspended: boolean;
  readonly raw: { readonly [key: string]: Json };
}

/** An event of a run. */
export declare class Event {
  readonly type: "event";
  /** From 1; the parts of one journaled event share its number. */
  readonly seq: number;
  /** The time at which it happened, in UTC. */
  readonly at: string;
  /** Such as `step-entered`. */
  readonly kind: string;
  /** The event as the journal keeps it. */
  readonly data: { readonly [key: string]: Json };
  /** The receipt that it brings. */
  readonly receipt?: Receipt;
}

/** A run came to wait for answers and for nothing else. */
export declare class Suspended {
  readonly type: "suspended";
  readonly questions: Question[];
}

/** A piece of a model's answer, as it comes. The journal has the answer, and no pieces. */
export declare class Text {
  readonly type: "text";
  /** The round that it belongs to. */
  readonly effect: number;
  readonly text: string;
}

/** A piece of a model's reasoning, as it comes. The journal has none of it. */
export declare class Reasoning {
  readonly type: "reasoning";
  /** The round that it belongs to. */
  readonly effect: number;
  readonly text: string;
}

/** A piece of a model's call of a tool, as it comes: its beginning, the next part of its arguments, or its end. */
export declare class CallPiece {
  readonly type: "call";
  /** The round that it belongs to. */
  readonly effect: number;
  /** The call's number in the answer, from 0. */
  readonly number: number;
  /** The tool, when the call begins; one that begins again replaces what came of it. */
  readonly tool?: string;
  /** The next part of the arguments, which are JSON. */
  readonly arguments?: string;
  /** `true` once the arguments are complete. */
  readonly isComplete: boolean;
}

/** A model is asked again: the pieces of this round until now do not count. */
export declare class Restarted {
  readonly type: "restarted";
  /** The round. */
  readonly effect: number;
}

/** Something that a reader of a run is told. */
export type Update = Event | Suspended | Text | Reasoning | CallPiece | Restarted;

/** The parts of an answer with yes. */
export interface Approval {
  /** The person who decides, for the record. */
  by?: string;
  /** Of an approval: the reason. */
  why?: string;
  /** Of a grant or a call: for every later one that is the same as well. */
  forTheRun?: boolean;
  /** Of a call: the arguments with which it is made, instead of the model's. The record keeps both. */
  arguments?: { readonly [key: string]: JsonInput };
  /** Of a form: its values; those that are left out are its defaults. */
  values?: { readonly [key: string]: JsonInput };
}

/** A run: one that this host drives, or one of its journal. */
export declare class Run {
  private constructor();
  readonly id: string;
  /** `true` if this host drives the run. */
  readonly isDriven: boolean;
  /** Waits until this host no longer drives the run, or, of a run of another process, until it has ended. */
  outcome(options?: { signal?: AbortSignal }): Promise<Outcome>;
  /** Reads the state of the run now. */
  state(): Promise<Outcome>;
  /** Reads every event until now, as the journal keeps them. */
  history(): Promise<Event[]>;
  /** Follows the run from its first event until this host no longer drives it. */
  events(options?: { signal?: AbortSignal }): AsyncGenerator<Update, void, void>;
  [Symbol.asyncIterator](): AsyncGenerator<Update, void, void>;
  /**
   * Answers an open question with yes: by its ID, or an approval by its name. Returns the step that takes it now. What
   * the question does not take is an error, and nothing is answered.
   */
  approve(question: string, options?: Approval): Promise<string | null>;
  /** Answers an open question with no. */
  refuse(question: string, options?: { by?: string; why?: string }): Promise<string | null>;
  /**
   * Answers an effect in doubt, which may have happened before a crash: repeats it, treats it as done with the result
   * `null`, or treats it as failed.
   */
  settle(effect: number, answer: "retry" | "skip" | "fail", options?: { by?: string }): Promise<string | null>;
  /** Sends a signal to a step that waits for it, now or later; returns the step that takes it now. */
  signal(name: string, data?: JsonInput, options?: { by?: string }): Promise<string | null>;
  /** Asks the run to stop; it ends as cancelled. */
  cancel(reason: string, options?: { by?: string }): Promise<void>;
}

// Errors.

/** Every error of this package. */
export declare class OpcellError extends Error {
  /** Stable and machine-readable, kebab-case. */
  readonly code: string;
}

/** There is no host: something that it is made of cannot be used. */
export declare class HostError extends OpcellError {}

/** A run cannot be started, resumed, answered or driven on. */
export declare class RunError extends OpcellError {}

/** A finding in a document or a project file. */
export declare class Finding {
  readonly code: string;
  readonly message: string;
  readonly severity: string;
  readonly help?: string;
  readonly line?: number;
  readonly column?: number;
  readonly raw: { readonly [key: string]: Json };
}

/** A document, a project file or a plugin was refused. */
export declare class RejectedError extends OpcellError {
  /** Every finding, with its place. */
  readonly findings: Finding[];
}

/** A call has no result. The class says of which kind the failure is; no plugin can choose it. */
export declare class CallError extends OpcellError {
  readonly kind: string;
  /** The party that reports it. */
  readonly source: "host" | "sandbox" | "plugin" | "engine" | "model" | "tool";
  /** The party that can correct the cause. */
  readonly fault: "caller" | "operator" | "plugin" | "load" | "remote" | "document" | "host";
  readonly details?: Json;
  /** `true` if the call may be made again. */
  readonly retriable: boolean;
  /** The refusal, where something was refused. */
  readonly denial?: Denial;
  /** Absent if nothing ran. */
  readonly receipt?: Receipt;
}

/** No cell became free in time. Nothing has run: the same call may be made again. */
export declare class Busy extends CallError {}
/** The time of the call was up. What it had begun may have happened. */
export declare class CallTimeout extends CallError {}
/** The call was cancelled. */
export declare class Cancelled extends CallError {}
/** A rule of the operator refused something; `denial` says which, and what would allow it. */
export declare class Denied extends CallError {}
/** The arguments do not match the operation's schema. Nothing has run. */
export declare class InvalidArguments extends CallError {}
/** There is no such operation, judge or tool. Nothing has run. */
export declare class UnknownOperation extends CallError {}
/** The cell reached a limit other than its wall time; `code` says which. */
export declare class LimitReached extends CallError {}
/** The plugin's code trapped or panicked. */
export declare class Trapped extends CallError {}
/** The plugin broke its contract. */
export declare class MalformedResult extends CallError {}
/** A tool of this program ended without an answer. */
export declare class Panicked extends CallError {}
/** The host is closing and accepts no calls. */
export declare class Closing extends CallError {}
/** The plugin's own failure, with a code of its choice. */
export declare class PluginFailure extends CallError {}
/** A failure of a model or its provider. */
export declare class ModelFailure extends CallError {}
/** A failure of a tool server. */
export declare class ToolServerFailure extends CallError {}
/** Any other failure of the host, that of a tool of this program among them. */
export declare class HostFailure extends CallError {}
/** A failure by the rules of the document. */
export declare class EngineFailure extends CallError {}
