"use strict";

// The connection of this thread to the native module: operations under numbers, and reports about them.

const { load } = require("./load");
const { made } = require("./errors");

const native = load();

// As `Subject` of the native module has them.
const DONE = 0;
const FAILED = 1;
const TOOL = 2;
const ROUND = 3;
const ABANDONED = 4;

/** Operations whose result is awaited. */
const pending = new Map();
/** What performs tools and models, by the number of its host. */
const performers = new Map();
/** Calls of functions in flight, by their numbers: one that never answers is kept until its caller leaves. */
const inFlight = new Map();

let lastNumber = 0;

// An operation that is awaited keeps the event loop alive, and nothing else does.
const alive = setInterval(() => {}, 2 ** 31 - 1);
alive.unref();

function settled(number) {
  const operation = pending.get(number);
  if (operation === undefined) return undefined;
  pending.delete(number);
  if (pending.size === 0) alive.unref();
  operation.signal?.removeEventListener("abort", operation.aborted);
  return operation;
}

function told(subject, number, value) {
  switch (subject) {
    case DONE:
      settled(number)?.resolve(value);
      break;
    case FAILED:
      settled(number)?.reject(made(value));
      break;
    case TOOL:
    case ROUND: {
      const performer = performers.get(number);
      if (performer === undefined) {
        value.fail("closing", "the host of this function was closed", false);
        break;
      }
      const controller = new AbortController();
      inFlight.set(value.number, { call: value, controller });
      const perform = subject === TOOL ? performer.tool : performer.round;
      perform(value, controller.signal).finally(() => inFlight.delete(value.number));
      break;
    }
    case ABANDONED:
      inFlight.get(number)?.controller.abort();
      inFlight.delete(number);
      break;
  }
}

const connection = native.connect(told);

/**
 * Begins an operation under a new number, and returns a promise of its result. An abort of the signal cancels it and
 * rejects the promise with the signal's reason.
 */
function operation(begin, signal) {
  if (signal?.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    lastNumber += 1;
    const number = lastNumber;
    let aborted;
    if (signal !== undefined && signal !== null) {
      aborted = () => {
        settled(number);
        connection.cancel(number);
        reject(signal.reason);
      };
      signal.addEventListener("abort", aborted, { once: true });
    }
    if (pending.size === 0) alive.ref();
    pending.set(number, { resolve, reject, signal, aborted });
    try {
      begin(number);
    } catch (error) {
      settled(number);
      reject(caught(error));
    }
  });
}

/** Returns the error of what the native module threw: an error of its arguments is a `TypeError`. */
function caught(thrown) {
  return /^InvalidArg$|Expected$/.test(thrown.code) ? new TypeError(thrown.message, { cause: thrown }) : thrown;
}

module.exports = { connection, native, operation, performers, version: native.version() };
