"use strict";

// The host.

const { accessSync, constants } = require("node:fs");
const { callError, Finding, made } = require("./errors");
const { COMPILER } = require("./load");
const { performRound } = require("./models");
const { connection, native, operation, performers } = require("./native");
const { pathOf } = require("./plugins");
const { Receipt } = require("./receipts");
const { Run, Workflow } = require("./runs");
const { Tool } = require("./tools");

const { NativeReply } = native;

let lastHost = 0;

// The functions of a host that is not used any more are not kept.
const forgotten = new FinalizationRegistry((number) => performers.delete(number));

/** The end of a call as a value: its result or its failure, each with the receipt. */
class Reply {
  #native;
  #data;
  #error;

  constructor(native) {
    this.#native = native;
  }

  get ok() {
    return this.#native.isOk();
  }

  get data() {
    if (this.#data === undefined) this.#data = this.#native.data();
    return this.#data;
  }

  get summary() {
    return this.#native.summary() ?? undefined;
  }

  get details() {
    return this.#native.details() ?? undefined;
  }

  get receipt() {
    const raw = this.#native.receipt();
    return raw === null ? undefined : new Receipt(raw);
  }

  get error() {
    if (this.#error === undefined && !this.ok) this.#error = callError(this.#native.failure(), this.receipt);
    return this.#error;
  }

  get denial() {
    return this.error?.denial;
  }

  /** Returns the result, or throws the failure. */
  result() {
    if (this.ok) return this.data;
    throw this.error;
  }
}

function compiler() {
  try {
    accessSync(COMPILER, constants.X_OK);
    return COMPILER;
  } catch {
    return null;
  }
}

/** Returns what performs the functions of a host. It does not refer to the host, which would never be forgotten. */
function performerOf(tools, model, providers) {
  return {
    tool: (call, signal) => tools[call.index]._perform(call, signal),
    round: (round, signal) => performRound(round.provider === null ? model : providers.get(round.provider), round, signal),
  };
}

function checkModels(models) {
  for (const complete of models) {
    if (typeof complete !== "function") throw new TypeError("a model is a function of a round");
  }
}

/** Returns the key of the function that answers for a tenant; of all providers if there is none. No provider has it. */
function keyOf(tenant, provider = "") {
  return `\0${tenant}\0${provider}`;
}

const TENANT_OPTIONS = new Set(["grants", "settings", "limits", "model", "providers", "modelKeys"]);

const OPTIONS = new Set([
  "project",
  "plugins",
  "tools",
  "model",
  "providers",
  "workflows",
  "skills",
  "limits",
  "cells",
  "journal",
  "lock",
  "cache",
  "leaveOutNewPermissions",
  "trustedInProcess",
]);

function settingsOf(options) {
  const unknown = Object.keys(options).find((key) => !OPTIONS.has(key));
  if (unknown !== undefined) {
    throw new TypeError(`a host has no option \`${unknown}\`; its options are ${[...OPTIONS].join(", ")}`);
  }
  const path = (given) => (given === undefined || given === null ? null : pathOf(given));
  return {
    project: path(options.project),
    plugins: options.plugins ?? [],
    workflows: (options.workflows ?? []).map(path),
    skills: (options.skills ?? []).map(path),
    limits: options.limits ?? {},
    cells: options.cells ?? null,
    journal: path(options.journal),
    lock: path(options.lock),
    cache: path(options.cache),
    leave_out: options.leaveOutNewPermissions ?? false,
    compiler: compiler(),
    trusted: options.trustedInProcess ?? false,
  };
}

/** The pieces of answers that are asked for, as a number. */
function pieces(text) {
  if (typeof text === "boolean") return Number(text);
  if (text === "all") return 2;
  throw new TypeError(`text: expected true, false or "all", but found ${String(text)}`);
}

/** Plugins with their grants, workflows, functions of this program, and the engine that runs them. */
class Host {
  #settings;
  #components;
  #tools;
  #model;
  #providers;
  #number;
  #opening;
  #isClosed = false;

  constructor(project, options) {
    const isProject = typeof project === "string" || project instanceof URL;
    const given = isProject ? { ...options, project } : { ...project };
    this.#settings = settingsOf(given);
    const plugins = given.plugins ?? [];
    const bytes = plugins.filter((plugin) => plugin.component instanceof Uint8Array);
    this.#components = Object.fromEntries(bytes.map(({ name, component }) => [name, Buffer.from(component)]));
    this.#tools = [...(given.tools ?? [])];
    for (const tool of this.#tools) {
      if (!(tool instanceof Tool)) throw new TypeError("`tools` are made by `tool(name, options, function)`");
    }
    this.#model = given.model;
    this.#providers = new Map(Object.entries(given.providers ?? {}));
    checkModels([this.#model ?? (() => {}), ...this.#providers.values()]);
    lastHost += 1;
    this.#number = lastHost;
  }

  // Building.

  /** Offers a function as a tool. Only before the host is built. */
  tool(name, options, execute) {
    if (this.#opening !== undefined) throw new Error("this host is built already: add its tools before its first use");
    this.#tools.push(new Tool(name, options, execute));
    return this;
  }

  /** Loads the plugins and reads the workflows, unless that has happened; returns the host. */
  async open() {
    await this.#built();
    return this;
  }

  #built() {
    // A host that could not be built is built again at its next use.
    this.#opening ??= this.#open().catch((error) => {
      this.#opening = undefined;
      performers.delete(this.#number);
      throw error;
    });
    return this.#opening;
  }

  async #open() {
    performers.set(this.#number, performerOf(this.#tools, this.#model, this.#providers));
    forgotten.register(this, this.#number);
    const listed = this.#tools.map(({ name, description, schema, effects, plugins, documents }) => {
      return { name, description, schema, effects, plugins, documents };
    });
    return await operation((number) => {
      const [hasModel, names] = [this.#model !== undefined, [...this.#providers.keys()]];
      connection.openHost(number, this.#number, this.#settings, this.#components, listed, hasModel, names);
    });
  }

  // Calls.

  async #invoke(name, args, reply, options = {}) {
    const native = await this.#built();
    const { timeoutMs, user, tenant, idempotencyKey, signal } = options;
    const given = { timeoutMs, user, tenant, idempotencyKey };
    return await operation((number) => native.invoke(number, name, args ?? {}, reply, given), signal);
  }

  /** Calls an operation and returns its data. Throws `CallError`. */
  async call(name, args, options) {
    const result = await this.#invoke(name, args, false, options);
    return result instanceof NativeReply ? new Reply(result).result() : result;
  }

  /** As `call`, with the failure as a value: the reply has result or failure, denial and receipt. */
  async invoke(name, args, options) {
    return new Reply(await this.#invoke(name, args, true, options));
  }

  /** Every operation and judge of the plugins, with its schemas and effects. */
  async operations() {
    return (await this.#built()).operations();
  }

  /** The plugins that were left out because they ask for more than was agreed, each with why. */
  async leftOut() {
    return (await this.#built()).leftOut();
  }

  // Runs.

  /** A workflow by the path of its document, or by its name in the project. */
  async workflow(workflow) {
    if (workflow instanceof Workflow) return workflow;
    const native = await this.#built();
    return new Workflow(await operation((number) => native.workflow(number, pathOf(workflow))));
  }

  /** Checks the names that a workflow uses against what this host has. */
  async check(workflow) {
    const opened = await this.workflow(workflow);
    const findings = (await this.#built()).check(opened._native);
    return findings.map((finding) => new Finding(finding));
  }

  /** Starts a run, which continues in the background; `detach` releases it when it is suspended. */
  async start(workflow, input, { detach = false, text = false, id, user, tenant } = {}) {
    const native = await this.#built();
    const opened = await this.workflow(workflow);
    const options = { detach, text: pieces(text), id, user, tenant };
    return new Run(await operation((number) => native.start(number, opened._native, input ?? null, options)), this);
  }

  /** Runs a workflow until it has ended or waits for answers. An abort ends the waiting; the run continues. */
  async run(workflow, input, { signal, ...options } = {}) {
    const run = await this.start(workflow, input, { detach: true, ...options });
    return await run.outcome({ signal });
  }

  /** Drives a run of the journal that has no driver. */
  async resume(run, { detach = true, text = false } = {}) {
    const native = await this.#built();
    return new Run(await operation((number) => native.resume(number, run, detach, pieces(text))), this);
  }

  /** Drives every run of the journal that the last process left: by ID the run, or why it stays as it is. */
  async resumeAll({ detach = true } = {}) {
    const native = await this.#built();
    const listed = await operation((number) => native.resumeAll(number, detach));
    return new Map(listed.map(([id, run, error]) => [id, run ? new Run(run, this) : made(error)]));
  }

  /** A run of the journal, whichever process drives it: to answer it, to read it, to stop it. */
  async runById(id) {
    return new Run((await this.#built()).runById(id), this);
  }

  // Tenants.

  /**
   * Makes a tenant known, or replaces it: calls and runs on its behalf have what it grants, and nothing else. It stays
   * as it was if this is refused.
   */
  async setTenant(name, options = {}) {
    const unknown = Object.keys(options).find((key) => !TENANT_OPTIONS.has(key));
    if (unknown !== undefined) {
      throw new TypeError(`a tenant has no option \`${unknown}\`; its options are ${[...TENANT_OPTIONS].join(", ")}`);
    }
    const { grants = {}, settings = {}, limits = {}, model, providers = {}, modelKeys: keys = {} } = options;
    if (Object.values(keys).some((key) => typeof key !== "string")) throw new TypeError("a key of a model is a string");
    const functions = new Map(Object.entries(providers).map(([provider, own]) => [keyOf(name, provider), own]));
    if (model !== undefined) functions.set(keyOf(name), model);
    checkModels(functions.values());
    const native = await this.#built();
    // Functions that are there answer until the new ones do.
    const added = [...functions].filter(([key]) => !this.#providers.has(key));
    for (const [key, own] of added) this.#providers.set(key, own);
    const pairs = Object.keys(providers).map((provider) => [provider, keyOf(name, provider)]);
    const data = { name, grants, settings, limits, keys };
    try {
      const all = model === undefined ? undefined : keyOf(name);
      await operation((number) => native.setTenant(number, data, all, pairs));
    } catch (error) {
      for (const [key] of added) this.#providers.delete(key);
      throw error;
    }
    for (const [key, own] of functions) this.#providers.set(key, own);
  }

  /** Forgets a tenant; calls and runs that name it are refused from now on. `false` if there was none. */
  async removeTenant(name) {
    const wasKnown = (await this.#built()).removeTenant(name);
    for (const key of this.#providers.keys()) if (key.startsWith(keyOf(name))) this.#providers.delete(key);
    return wasKnown;
  }

  // Closing.

  /** Ends in order: calls and runs in flight have `graceMs`, then they are stopped with their receipts. */
  async close({ graceMs = 5_000 } = {}) {
    if (this.#opening === undefined || this.#isClosed) return;
    const native = await this.#opening;
    this.#isClosed = true;
    await operation((number) => native.close(number, graceMs));
    performers.delete(this.#number);
  }

  async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
    await this.close();
  }
}

/** Reads what a project file asks for beyond its own folder: programs, hosts, other folders, variables. */
function projectRequests(project) {
  return operation((number) => connection.requests(number, pathOf(project)));
}

module.exports = { Host, Reply, projectRequests };
