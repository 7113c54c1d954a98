"use strict";

/** A refusal: what was asked for, the rule that refused it, and what would change that. */
class Denial {
  constructor(data) {
    this.capability = data.capability ?? "";
    this.rule = data.rule ?? "";
    this.remedy = data.remedy ?? {};
    this.message = data.message ?? `${this.capability} is denied: ${this.rule}`;
    this.command = data.command ?? undefined;
  }

  toString() {
    return this.message;
  }
}

module.exports = { Denial };
