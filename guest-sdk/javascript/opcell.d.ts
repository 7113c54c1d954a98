/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
/** A JSON Schema, 2020-12. */
export type Schema = { [key: string]: unknown } | boolean;

/** Where in a run a call happens. */
export interface Context {
  run: string;
  step: string;
  /** How often the step has been entered, from 1. */
  visit: number;
  /** Attempt within the visit, from 1. */
  attempt: number;
  /** The same across retries and resumes of one effect. */
  idempotencyKey: string;
}

/** A failure that the plugin reports on purpose; throw it. `reason` is kebab-case and stable. */
export class Failure extends Error {
  constructor(reason: string, message: string, details?: Json);
  reason: string;
  details?: Json;
}

/** What the host refused. */
export class Denied extends Failure {
  denial: { capability: string; rule: string; remedy: string };
}

/** A result with a summary for people, or with structured details. */
export class Success {
  constructor(data: Json, more?: { summary?: string; details?: Json });
}

export interface Keyword {
  tag: "keyword";
  val: string;
}
export type Outcome = string | Keyword;
/** A keyword outcome: `keyword("done")` and `"done"` are different outcomes. */
export function keyword(name: string): Keyword;

export interface Operation {
  readonly id: string;
}
export interface Judge {
  readonly id: string;
}

export function operation<Arguments = any>(
  id: string,
  about: { summary: string; arguments: Schema; data: Schema; effects?: "pure" | "idempotent" | "once" },
  run: (args: Arguments, context: Context) => Json | Success | Promise<Json | Success>,
): Operation;

export type Decided = Outcome | { outcome: Outcome; rationale?: string };

export function judge<Arguments = any>(
  id: string,
  about: { summary: string; arguments: Schema; outcomes?: Outcome[] },
  decide: (args: Arguments, context: Context) => Decided | Promise<Decided>,
): Judge;

export function plugin(parts: { operations?: Operation[]; judges?: Judge[] }): { operations: unknown; judges: unknown };

export const tools: {
  list(): { name: string; summary: string; arguments: Schema }[];
  call(name: string, args?: { [key: string]: Json }): any;
};
export const skills: {
  list(): { name: string; description: string }[];
  read(name: string): string;
  readResource(name: string, path: string): Uint8Array;
};
export const files: {
  roots(): { name: string; writable: boolean }[];
  entries(root: string, path?: string): { name: string; kind: "file" | "directory" | "other"; size: number }[];
  /** Every file below a directory, as paths from the root, sorted. */
  walk(root: string, path?: string, options?: { skip?: string[]; most?: number }): string[];
  read(root: string, path: string): Uint8Array;
  readText(root: string, path: string): string;
  write(root: string, path: string, content: string | Uint8Array): void;
  remove(root: string, path: string): void;
};
export interface StoreEntry {
  value: Uint8Array;
  version: bigint;
  /** The value as a text; throws when it is not UTF-8. */
  readonly text: string;
}
/** What the plugin keeps from one call to the next, in stores that are granted by name. */
export const store: {
  get(name: string, key: string): StoreEntry | undefined;
  getText(name: string, key: string): string | undefined;
  set(name: string, key: string, value: string | Uint8Array): bigint;
  /** `expected` is undefined for a key that must have no entry. */
  compareAndSet(
    name: string,
    key: string,
    expected: bigint | undefined,
    value: string | Uint8Array,
  ): { stored: bigint } | { conflict: StoreEntry | undefined };
  /** Makes a new value of the text that is there, again if another call wrote in between. Returns what was written. */
  update(name: string, key: string, change: (text: string | undefined) => string): string;
  list(name: string, page?: { prefix?: string; after?: string; limit?: number }): { keys: string[]; more: boolean };
  delete(name: string, key: string): boolean;
};
export const log: {
  debug(message: unknown): void;
  info(message: unknown): void;
  warn(message: unknown): void;
  error(message: unknown): void;
  progress(done: number, total?: number, message?: string): void;
};
