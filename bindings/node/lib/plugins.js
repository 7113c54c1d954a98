"use strict";

// Plugins with their grants and limits.

const { fileURLToPath } = require("node:url");

/** Returns a path as a string: a `file:` URL is one as well. */
function pathOf(path) {
  return path instanceof URL ? fileURLToPath(path) : path;
}

/** Something that a plugin may reach, as far as its manifest asks for it. */
class Grant {
  #data;

  constructor(data) {
    this.#data = data;
  }

  /** A tool: of the host, or of this program. */
  static tool(name) {
    return new Grant({ kind: "tool", name });
  }

  /** A skill. */
  static skill(name) {
    return new Grant({ kind: "skill", name });
  }

  /** Reading below a directory, under the name by which the plugin asks for it. */
  static read(name, directory, { patterns = [] } = {}) {
    return new Grant({ kind: "files", name, directory: pathOf(directory), write: false, patterns });
  }

  /** Reading and writing below a directory. */
  static readWrite(name, directory, { patterns = [] } = {}) {
    return new Grant({ kind: "files", name, directory: pathOf(directory), write: true, patterns });
  }

  /** A store in which the plugin keeps values from one call to the next. */
  static store(name, { perRun = false } = {}) {
    return new Grant({ kind: "store", name, per_run: perRun });
  }

  toJSON() {
    return this.#data;
  }
}

/** A plugin: a component in a file or in memory, with exactly these grants. */
class Plugin {
  constructor(name, component, { grants = [], limits = {}, settings = {} } = {}) {
    this.name = name;
    this.component = component;
    this.grants = grants;
    this.limits = limits;
    this.settings = settings;
  }

  /** The plugin whose operation `code/run` runs programs in JavaScript, which call the tools granted here. */
  static code({ grants = [], limits = {} } = {}) {
    return new Plugin("code", null, { grants, limits });
  }

  toJSON() {
    const isPath = this.component !== null && !(this.component instanceof Uint8Array);
    return {
      name: this.name,
      builtin: this.component === null,
      path: isPath ? pathOf(this.component) : null,
      grants: this.grants,
      limits: this.limits,
      settings: this.settings,
    };
  }
}

module.exports = { Grant, Plugin, pathOf };
