/** Doubles of what a host serves; what is missing is denied. */
export interface Doubles {
  /** Tools as functions of their arguments; one that throws a `Failure` fails. */
  tools?: Record<string, (args: any) => unknown>;
  /** Skills as texts; `NAME/PATH` is a resource of a skill. */
  skills?: Record<string, string>;
  /** Files by root and path. */
  files?: Record<string, Record<string, string | Uint8Array>>;
  /** Values by store and key. */
  stores?: Record<string, Record<string, string | Uint8Array>>;
}

/** Serves these doubles from here on. */
export function host(doubles?: Doubles): {
  /** The lines that were logged. */
  log: string[];
  /** The text of a file that is there now; undefined if there is none. */
  file(root: string, path: string): string | undefined;
  /** The text of a value that is there now; undefined if there is none. */
  stored(store: string, key: string): string | undefined;
};
