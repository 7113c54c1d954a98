"use strict";

// Workflows and runs.

const { Denial, Finding, made } = require("./errors");
const { connection, native, operation } = require("./native");
const { pathOf } = require("./plugins");
const { Receipt } = require("./receipts");

/** A compiled workflow. The name of the document decides its language. */
class Workflow {
  constructor(native) {
    this._native = native;
  }

  /** Compiles a text as a document of this name, such as `greet.edn`. */
  static compile(name, text) {
    const compiled = native.compileWorkflow(name, text);
    if (compiled instanceof native.NativeWorkflow) return new Workflow(compiled);
    throw made(compiled);
  }

  /** Reads and compiles a document. */
  static async load(path) {
    return new Workflow(await operation((number) => connection.loadWorkflow(number, pathOf(path))));
  }

  get name() {
    return this._native.name;
  }

  get steps() {
    return this._native.steps();
  }

  get warnings() {
    return this._native.warnings().map((finding) => new Finding(finding));
  }
}

/** A question that a suspended run waits for. */
class Question {
  constructor(data) {
    this.kind = data.kind;
    this.step = data.step;
    this.id = data.id || undefined;
    this.name = data.name ?? undefined;
    this.text = data.question ?? data.what ?? data.message ?? undefined;
    this.denial = data.denial ? new Denial(data.denial) : undefined;
    this.tool = data.tool ?? undefined;
    this.arguments = data.arguments ?? undefined;
    this.schema = data.schema ?? undefined;
    this.effect = data.kind === "doubt" ? data.effect : undefined;
    this.raw = data;
  }
}

/** The state of a run: how it ended, or the questions that it waits for. */
class Outcome {
  constructor(data) {
    this.run = data.run;
    this.workflow = data.workflow;
    this.status = data.status;
    this.result = data.result;
    this.reason = data.reason ?? undefined;
    this.message = data.message ?? undefined;
    this.step = data.step ?? undefined;
    this.denial = data.denial ? new Denial(data.denial) : undefined;
    this.receipt = data.receipt ? new Receipt(data.receipt) : undefined;
    this.questions = data.questions.map((question) => new Question(question));
    this.raw = data;
  }

  get completed() {
    return this.status === "completed";
  }

  get suspended() {
    return this.status === "suspended";
  }
}

/** An event of a run. */
class Event {
  constructor(data) {
    this.type = "event";
    this.seq = data.seq;
    this.at = data.at;
    this.kind = data.kind;
    this.data = data.data;
    this.receipt = data.receipt ? new Receipt(data.receipt) : undefined;
  }
}

/** A run came to wait for answers and for nothing else. */
class Suspended {
  constructor(questions) {
    this.type = "suspended";
    this.questions = questions.map((question) => new Question(question));
  }
}

/** A piece of a model's answer, as it comes. */
class Text {
  constructor({ effect, text }) {
    this.type = "text";
    this.effect = effect;
    this.text = text;
  }
}

/** A piece of a model's reasoning, as it comes. */
class Reasoning {
  constructor({ effect, reasoning }) {
    this.type = "reasoning";
    this.effect = effect;
    this.text = reasoning;
  }
}

/** A piece of a model's call of a tool, as it comes. */
class CallPiece {
  constructor({ effect, call }) {
    this.type = "call";
    this.effect = effect;
    this.number = call.number;
    this.tool = call.tool;
    this.arguments = call.arguments;
    this.isComplete = call.ended === true;
  }
}

/** A model is asked again. */
class Restarted {
  constructor({ effect }) {
    this.type = "restarted";
    this.effect = effect;
  }
}

/** A run: one that this host drives, or one of its journal. */
class Run {
  #native;
  // A host that is not used any more is closed: not while a run of it is.
  #host;

  constructor(native, host) {
    this.#native = native;
    this.#host = host;
  }

  get id() {
    return this.#native.id;
  }

  get isDriven() {
    return this.#native.isDriven;
  }

  /** Waits until this host no longer drives the run, and says how it ended or what it waits for. */
  async outcome({ signal } = {}) {
    return new Outcome(await operation((number) => this.#native.outcome(number), signal));
  }

  /** Reads the state of the run now. */
  async state() {
    return new Outcome(await operation((number) => this.#native.state(number)));
  }

  /** Reads every event until now, as the journal keeps them. */
  async history() {
    const events = await operation((number) => this.#native.history(number));
    return events.map((event) => new Event(event));
  }

  /** Follows the run from its first event until this host no longer drives it. */
  async *events({ signal } = {}) {
    const updates = await operation((number) => this.#native.updates(number), signal);
    for (;;) {
      const update = await operation((number) => updates.next(number), signal);
      if (update === null) return;
      if (update.event !== undefined) yield new Event(update.event);
      else if (update.questions !== undefined) yield new Suspended(update.questions);
      else if (update.text !== undefined) yield new Text(update);
      else if (update.reasoning !== undefined) yield new Reasoning(update);
      else if (update.call !== undefined) yield new CallPiece(update);
      else if (update.restarted !== undefined) yield new Restarted(update);
    }
  }

  [Symbol.asyncIterator]() {
    return this.events();
  }

  /** Answers an open question with yes: by its ID, or an approval by its name. */
  async approve(question, { by, why, forTheRun = false, arguments: changed, values } = {}) {
    if (changed === null) throw new TypeError("the arguments of the call: expected an object, but found null");
    if (values === null) throw new TypeError("the values of the form: expected an object, but found null");
    return operation((number) => this.#native.approve(number, question, by, why, forTheRun, changed, values));
  }

  /** Answers an open question with no. */
  refuse(question, { by, why } = {}) {
    return operation((number) => this.#native.refuse(number, question, by, why));
  }

  /** Answers an effect in doubt, which may have happened before a crash: `retry`, `skip` or `fail`. */
  settle(effect, answer, { by } = {}) {
    return operation((number) => this.#native.settle(number, effect, answer, by));
  }

  /** Sends a signal to a step that waits for it, now or later. */
  signal(name, data, { by } = {}) {
    return operation((number) => this.#native.signal(number, name, data, by));
  }

  /** Asks the run to stop; it ends as cancelled. */
  async cancel(reason, { by } = {}) {
    await operation((number) => this.#native.cancel(number, reason, by));
  }
}

module.exports = { CallPiece, Event, Outcome, Question, Reasoning, Restarted, Run, Suspended, Text, Workflow };
