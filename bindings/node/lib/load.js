"use strict";

// Loads the native module, or says what is missing.

const { existsSync } = require("node:fs");
const path = require("node:path");

const FOLDER = path.join(__dirname, "..", "native");
const LIBRARY = path.join(FOLDER, "opcell.linux-x64-gnu.node");

/** The program that compiles plugins. */
const COMPILER = path.join(FOLDER, "opcell-compile");

/** Returns the reason why this process cannot load the module, or `null`. */
function obstacle(platform, arch, glibc, nodeVersion, exists) {
  if (platform !== "linux" || arch !== "x64") {
    const system = `this is ${platform} on ${arch}`;
    return `${system}, and the package has a build for Linux on x64 only; on other systems use a host over HTTP`;
  }
  if (!glibc) {
    return "this Node.js uses musl, and the package has a build for glibc only: use an image of Debian or Ubuntu";
  }
  if (Number.parseInt(nodeVersion, 10) < 20) {
    return `this is Node.js ${nodeVersion}, and the package is for Node.js 20 or later`;
  }
  if (!exists) {
    return `${LIBRARY} is missing: install the package again, or build it with \`cargo xtask bindings\``;
  }
  return null;
}

function load() {
  const found = (glibc) => obstacle(process.platform, process.arch, glibc, process.versions.node, existsSync(LIBRARY));
  const problem = found("unknown");
  if (problem !== null) throw new Error(`opcell cannot be loaded: ${problem}`);
  try {
    return require(LIBRARY);
  } catch (cause) {
    // The report takes longer than everything else here.
    const glibc = process.report?.getReport?.().header?.glibcVersionRuntime;
    throw new Error(`opcell cannot be loaded: ${found(glibc) ?? cause.message}`, { cause });
  }
}

module.exports = { COMPILER, load, obstacle };
