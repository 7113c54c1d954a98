"use strict";

const { Denial } = require("./denials");

/** The receipt of one call: what it used and touched, also if it failed. */
class Receipt {
  constructor(raw) {
    this.raw = raw;
  }

  get plugin() {
    return this.raw.plugin;
  }

  get operation() {
    return this.raw.operation;
  }

  get tool() {
    return this.raw.tool;
  }

  get durationUs() {
    return this.raw["duration-us"] ?? 0;
  }

  get queuedUs() {
    return this.raw["queued-us"] ?? 0;
  }

  get peakMemory() {
    return this.raw["peak-memory"] ?? 0;
  }

  get hostCalls() {
    return this.raw["host-calls"] ?? {};
  }

  get bytesIn() {
    return this.raw["bytes-in"] ?? 0;
  }

  get bytesOut() {
    return this.raw["bytes-out"] ?? 0;
  }

  get touched() {
    return this.raw.touched ?? {};
  }

  get denials() {
    return (this.raw.denials ?? []).map((denial) => new Denial(denial));
  }

  get error() {
    return this.raw.error;
  }
}

module.exports = { Receipt };
