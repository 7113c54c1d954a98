"""The plugin that all SDKs are held to, in Python."""

from typing import Any

import hints  # noqa: F401 (its operations)
from opcell import (Context, Denied, Failure, Judges, Keyword, Operations, Success, Verdict, files, judge, log, operation, skills,
                    store, tools)


@operation("kit/echo", effects="pure")
def echo(value: Any) -> Success:
    "Returns its argument."
    return Success({"value": value}, summary="echoed", details={"language": "any"})


@judge("kit/tone", outcomes=["polite", "rude", Keyword("silent")])
def tone(text: str) -> Verdict:
    "Says whether a text is polite."
    if not text:
        return Verdict(Keyword("silent"))
    return Verdict("polite", "it says please") if "please" in text.lower() else Verdict("rude")


@operation("kit/read", effects="pure")
def read(root: str, path: str) -> dict[str, str]:
    "Reads a file."
    return {"text": files.read_text(root, path)}


@operation("kit/write", effects="idempotent")
def write(root: str, path: str, text: str) -> dict[str, int]:
    "Writes a file."
    files.write(root, path, text)
    return {"written": len(text)}


@operation("kit/list", effects="pure")
def list_directory(root: str, path: str) -> dict[str, Any]:
    "Lists a directory, and reads each file in it 20 times."
    entries = files.entries(root, path)
    names = [entry["name"] for entry in entries if entry["kind"] == "file"]
    reads = [files.read(root, f"{path}/{name}" if path else name) for name in names for _ in range(20)]
    return {"entries": entries, "bytes": sum(map(len, reads))}


@operation("kit/tool", effects="once")
def tool(name: str, input: dict[str, Any]) -> dict[str, Any]:
    "Calls a tool; a refusal is a value."
    try:
        return {"answer": tools.call(name, **input)}
    except Denied as denied:
        return {"denied": denied.capability}


@operation("kit/skill", effects="pure")
def skill(name: str) -> dict[str, str]:
    "Reads a skill."
    return {"body": skills.read(name)}


@operation("kit/keep", effects="idempotent")
def keep(name: str, key: str, value: str) -> dict[str, Any]:
    "Keeps a value, and goes through all that a store can do."
    before = store.get(name, key) is not None
    version = store.set(name, key, value)
    _, conflict = store.compare_and_set(name, key, None, "other")
    swapped, _ = store.compare_and_set(name, key, version, value + "!")
    store.set(name, "zz", "")
    first, more = store.list(name, limit=1)
    rest, _ = store.list(name, after=key)
    kept = store.get(name, key).value.decode()
    deleted = [store.delete(name, key), store.delete(name, key)]
    return {"before": before, "conflict": conflict.value.decode(), "swapped": swapped, "first": first, "more": more,
            "rest": rest, "kept": kept, "deleted": deleted}


@operation("kit/note", effects="pure")
def note(text: str) -> dict[str, Any]:
    "Logs two lines and its progress."
    log.info(f"first {text}")
    log.warn(f"second {text}")
    log.progress(1, 2, "half")
    return {}


@operation("kit/fail", effects="pure")
def fail(reason: str) -> dict[str, Any]:
    "Fails on purpose."
    raise Failure(reason, "on purpose", {"why": [1, 2]})


@operation("kit/panic", effects="pure")
def panic(message: str) -> dict[str, Any]:
    "Panics."
    raise ValueError(message)


@operation("kit/where", effects="pure")
def where(context: Context) -> dict[str, Any]:
    "Says where in a run it is called."
    return {"run": context.run, "step": context.step, "visit": context.visit, "attempt": context.attempt,
            "key": context.idempotency_key}
