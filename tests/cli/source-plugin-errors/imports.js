import { readFile } from "node:fs";
/** Runs. */
export function run() {}
