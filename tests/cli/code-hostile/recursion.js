const seen = {};
const attempt = (name, run) => {
  try {
    run();
    seen[name] = "ended";
  } catch (error) {
    seen[name] = String(error);
  }
};
const recurse = (n) => recurse(n + 1) + 1;
attempt("function", () => recurse(0));
attempt("proxy", () => new Proxy({}, { get: (_, key, self) => self[key] }).x);
attempt("string", () => String({ toString() { return String(this); } }));
attempt("sort", () => [2, 1].sort(function compare() { return [2, 1].sort(compare); }));
attempt("replace", () => "a".replace(/a/, function again() { return "a".replace(/a/, again); }));
attempt("getter", () => ({ get x() { return this.x; } }).x);
attempt("block", () => eval("{".repeat(100000)));
attempt("pattern", () => new RegExp("(".repeat(100000) + ")".repeat(100000)));
return seen;
