"use strict";

// Errors, one class for each kind, and refusals as values.

const { Denial } = require("./denials");

/** Every error of this package. */
class OpcellError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }

  get name() {
    return this.constructor.name;
  }
}

/** There is no host: something that it is made of cannot be used. */
class HostError extends OpcellError {}

/** A finding in a document or a project file. */
class Finding {
  constructor(data) {
    const place = data.span ?? data;
    this.code = data.code ?? "";
    this.message = data.message ?? "";
    this.severity = data.severity ?? "error";
    this.help = data.help ?? undefined;
    this.line = place.line ?? undefined;
    this.column = place.column ?? undefined;
    this.raw = data;
  }
}

/** A document, a project file or a plugin was refused. */
class RejectedError extends OpcellError {
  constructor(message, code, findings) {
    super(message, code);
    this.findings = findings;
  }
}

/** A run cannot be started, resumed, answered or driven on. */
class RunError extends OpcellError {}

/** A call has no result. The class says of which kind the failure is; no plugin can choose it. */
class CallError extends OpcellError {
  constructor(failure, receipt) {
    super(failure.message, failure.code);
    this.kind = failure.kind;
    this.source = failure.source;
    this.fault = failure.fault;
    this.details = failure.details ?? undefined;
    this.retriable = Boolean(failure.retriable);
    this.denial = failure.denial ? new Denial(failure.denial) : undefined;
    this.receipt = receipt;
  }
}

class Busy extends CallError {}
class CallTimeout extends CallError {}
class Cancelled extends CallError {}
class Denied extends CallError {}
class InvalidArguments extends CallError {}
class UnknownOperation extends CallError {}
class LimitReached extends CallError {}
class Trapped extends CallError {}
class MalformedResult extends CallError {}
class Panicked extends CallError {}
class Closing extends CallError {}
class PluginFailure extends CallError {}
class ModelFailure extends CallError {}
class ToolServerFailure extends CallError {}
class HostFailure extends CallError {}
class EngineFailure extends CallError {}

const CALLS = {
  busy: Busy,
  timeout: CallTimeout,
  cancelled: Cancelled,
  denied: Denied,
  "invalid-arguments": InvalidArguments,
  unknown: UnknownOperation,
  limit: LimitReached,
  trap: Trapped,
  malformed: MalformedResult,
  panicked: Panicked,
  closing: Closing,
  plugin: PluginFailure,
  model: ModelFailure,
  tool: ToolServerFailure,
  host: HostFailure,
  engine: EngineFailure,
};

/** Thrown by a function of this program to fail with a code of its own: the caller gets it, a plugin or a model. */
class ToolFailure extends Error {
  constructor(code, message, { retriable = false } = {}) {
    super(message);
    this.name = "ToolFailure";
    this.code = code;
    this.retriable = retriable;
  }
}

/** Returns the error of a failure. */
function callError(failure, receipt) {
  return new (CALLS[failure.kind] ?? CallError)(failure, receipt);
}

/** Returns the error that the native module reports as data. */
function made({ kind, fields }) {
  const { message, code } = fields;
  switch (kind) {
    case "rejected":
      return new RejectedError(
        message,
        code,
        fields.findings.map((finding) => new Finding(finding)),
      );
    case "host":
      return new HostError(message, code);
    case "run":
      return new RunError(message, code);
    case "setting":
      return new TypeError(message);
    default:
      return new OpcellError(message, code);
  }
}

module.exports = {
  Busy,
  CallError,
  CallTimeout,
  Cancelled,
  Closing,
  Denial,
  Denied,
  EngineFailure,
  Finding,
  HostError,
  HostFailure,
  InvalidArguments,
  LimitReached,
  MalformedResult,
  ModelFailure,
  OpcellError,
  Panicked,
  PluginFailure,
  RejectedError,
  RunError,
  ToolFailure,
  ToolServerFailure,
  Trapped,
  UnknownOperation,
  callError,
  made,
};
