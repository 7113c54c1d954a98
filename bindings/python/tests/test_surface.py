"""The surface of both packages: every public method of the Rust library is in them, or on the page with the reason."""

import os
import re
import unittest
from pathlib import Path

import opcell

REPOSITORY = Path(os.environ["OPCELL_REPOSITORY"])
FACADE = REPOSITORY / "host/opcell/src"

TYPES = ["Host", "HostBuilder", "Invocation", "Run", "RunRef", "Workflow", "PluginConfig", "Grant", "Tenant"]


def rust_methods():
    """The public methods of the types, by type, from their `impl` blocks."""
    found = {name: set() for name in TYPES}
    for path in sorted(FACADE.rglob("*.rs")):
        if "tests" in path.name:
            continue
        inside = None
        for line in path.read_text(encoding="utf-8").splitlines():
            block = re.match(r"impl (\w+) \{", line)
            if block:
                inside = block.group(1)
            elif line.startswith("}"):
                inside = None
            method = re.match(r"    pub (?:const |async )*fn (\w+)", line)
            if method and inside in found:
                found[inside].add(method.group(1))
    return found


def rows():
    """The rows of the table: names in Rust, and what the package has."""
    page = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
    table = page.split("## The Rust library, method by method")[1]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 2:
            yield re.findall(r"`([\w:]+)`", cells[0]), cells[1]


class Surface(unittest.TestCase):
    maxDiff = None
    def test_every_method_of_the_library_is_on_the_page(self):
        documented = set()
        for names, _ in rows():
            owner = None
            for name in names:
                owner, _, method = name.rpartition("::") if "::" in name else (owner, "", name)
                documented.add((owner, method))
        # `Run` and `RunRef` share their rows.
        documented |= {("RunRef", method) for owner, method in documented if owner == "Run"}
        found = rust_methods()
        self.assertGreater(len(found["HostBuilder"]), 20)
        missing = sorted(
            f"{owner}::{method}"
            for owner, methods in found.items()
            for method in methods
            if (owner, method) not in documented
        )
        self.assertEqual(missing, [], "write them into the table of docs/python.md, with the reason if there is none")
        gone = sorted(f"{o}::{m}" for o, m in documented if o in found and m not in found[o] and m != o)
        gone = [name for name in gone if name.partition("::")[2] not in found["Run"] | found["RunRef"]]
        self.assertEqual(gone, [], "the library does not have them")

    def test_what_the_page_names_is_in_the_package(self):
        for _, has in rows():
            if not has.startswith("not"):
                for name, member in re.findall(r"`([A-Z]\w+)(?:\.(\w+))?`", has):
                    kind = getattr(opcell, name)
                    self.assertTrue(not member or hasattr(kind, member), f"{name}.{member}")

    def test_node_has_what_python_has(self):
        declared = (REPOSITORY / "bindings/node/index.d.ts").read_text(encoding="utf-8")
        # Python's for want of an event loop, of notebooks, and of interfaces; a message and a round are interfaces.
        only_python = {"Tool.function", "Outcome.raw", "Run.show", "Host.open", "Tenant"}
        for name in ("Host", "Run", "Workflow", "Grant", "Plugin", "Receipt", "Reply", "Event", "Outcome", "Question"):
            kind = getattr(opcell, name)
            body = re.search(rf"export declare class {name}\b.*?\n}}", declared, re.DOTALL).group(0)
            for member in [member for member in vars(kind) if not member.startswith("_")]:
                twin = member[1:] if member.startswith("a") and hasattr(kind, member[1:]) else member
                camel = re.sub(r"_(\w)", lambda found: found.group(1).upper(), twin)
                if f"{name}.{member}" in only_python:
                    continue
                self.assertRegex(body, rf"\b{camel}\b", f"{name}.{member}")

    def test_every_name_of_the_package_is_exported_by_both(self):
        exported = (REPOSITORY / "bindings/node/index.js").read_text(encoding="utf-8")
        declared = (REPOSITORY / "bindings/node/index.d.ts").read_text(encoding="utf-8")
        only_python = {"Answer", "ForkError", "Message", "Requests", "Round", "Tenant", "ToolContext", "ToolRequest"}
        only_python |= {"demo", "__version__", "project_requests"}
        for name in opcell.__all__:
            self.assertTrue(hasattr(opcell, name), name)
            if name not in only_python:
                self.assertRegex(exported, rf"(?m)^  {name},$")
                self.assertRegex(declared, rf"export declare (class|function) {name}\b")


class Shapes(unittest.TestCase):
    def test_each_field_of_a_receipt_is_one_that_the_library_writes(self):
        text = (REPOSITORY / "bindings/python/opcell/_receipts.py").read_text(encoding="utf-8")
        read = set(re.findall(r'raw\.get\("([\w-]+)"', text))
        self.assertGreater(len(read), 8)
        declared = set()
        for path in sorted((REPOSITORY / "host").rglob("*.rs")):
            source = path.read_text(encoding="utf-8")
            for body in re.findall(r"pub struct (?:Call)?Receipt \{(.*?)\n\}", source, re.DOTALL):
                declared |= {name.replace("_", "-") for name in re.findall(r"pub (\w+):", body)}
        self.assertEqual(read - declared, set())

    def test_each_field_of_an_outcome_and_a_failure_is_one_that_the_library_writes(self):
        shared = REPOSITORY / "bindings/shared/src"
        for source, function, python in [("data.rs", "outcome", "_runs.py"), ("error.rs", "failure", "_errors.py")]:
            body = (shared / source).read_text(encoding="utf-8").split(f"pub fn {function}(")[1].split("\n}")[0]
            written = set(re.findall(r'\("([\w-]+)", ', body))
            text = (REPOSITORY / "bindings/python/opcell" / python).read_text(encoding="utf-8")
            if function == "outcome":
                text = text.split("class Outcome")[1].split("@dataclass")[0]
                read = set(re.findall(r'data\["([\w-]+)"\]', text))
            else:
                read = set(re.findall(r'failure(?:\.get\(|\[)"([\w-]+)"', text))
            self.assertGreater(len(read), 5, function)
            self.assertEqual(read - written, set(), function)
        node = (REPOSITORY / "bindings/node/lib/runs.js").read_text(encoding="utf-8")
        body = (shared / "data.rs").read_text(encoding="utf-8").split("pub fn outcome(")[1].split("\n}")[0]
        read = re.findall(r"data\.(\w+)", node.split("class Outcome")[1].split("\n  }\n")[0])
        self.assertEqual(set(read) - set(re.findall(r'\("([\w-]+)", ', body)), set())


if __name__ == "__main__":
    unittest.main()
