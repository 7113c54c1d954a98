// Places in the plugin's own sources, from places in the one file that the build made of them.

/**
 * The build appends the map to the file that it makes: `sources`, and for every line a text of its segments,
 * `COLUMN:SOURCE:LINE:COLUMN` each, the first column counted from 0 in the file.
 */
const given = () => globalThis[Symbol.for("opcell.source-map")];

/** `[source, line, column]` of a place in the file, counted from 1; nothing where the map has none. */
function placeOf(line, column) {
  const { sources, lines } = given();
  let found;
  for (const segment of (lines[line - 1] ?? "").split(",")) {
    const [at, ...place] = segment.split(":").map(Number);
    if (place.length < 3 || at > column - 1) break;
    found = place;
  }
  return found && [sources[found[0]], found[1], found[2]];
}

const PLACE = /\(?([^\s()]*):(\d+):(\d+)\)?$/;

/** The frames of an error's stack with their places in the sources, without those of the SDK. */
export function framesOf(error) {
  const frames = [];
  for (const line of String(error?.stack ?? "").split("\n")) {
    const found = PLACE.exec(line.trim());
    if (!found) continue;
    const mapped = given() ? placeOf(Number(found[2]), Number(found[3])) : found.slice(1);
    // What the bundler added, and the SDK, are not the author's.
    if (!mapped || /(^|\/)sdk\/[\w-]+\.c?js$/.test(mapped[0])) continue;
    const [source, at, column] = mapped;
    const name = /^at (\S+) \(/.exec(line.trim())?.[1];
    frames.push(`${name && name !== "<anonymous>" ? `at ${name} ` : "at "}(${source}:${at}:${column})`);
  }
  return frames;
}
