"""The cases that hosts in every language run: bindings/cases."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import opcell

REPOSITORY = Path(os.environ["OPCELL_REPOSITORY"])
CASES = REPOSITORY / "bindings/cases"
OPERATIONS = REPOSITORY / "example-operations/dist"


def differences(expected, found, place):
    """Returns the places at which what was found differs; an expected object names the keys that matter."""
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{place}.{key} is missing" for key in expected if key not in found]
        inner = [differences(expected[key], found[key], f"{place}.{key}") for key in expected if key in found]
        return missing + sum(inner, [])
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return sum((differences(e, f, f"{place}[{n}]") for n, (e, f) in enumerate(zip(expected, found))), [])
    same = type(expected) is type(found) and expected == found
    return [] if same else [f"{place} is {found!r} and not {expected!r}"]


class Cases(unittest.TestCase):
    def test_every_case_ends_as_it_says(self):
        cases = sorted(CASES.glob("*.json"))
        self.assertGreaterEqual(len(cases), 5)
        for path in cases:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder:
                self.perform(json.loads(path.read_text(encoding="utf-8")), Path(folder))

    def perform(self, case, folder):
        for name, text in case.get("files", {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        project = "\n".join(case["project"]).replace("$OPERATIONS", str(OPERATIONS)).replace("$PROJECT", str(folder))
        (folder / "opcell.toml").write_text(project, encoding="utf-8")
        with opcell.Host(folder / "opcell.toml") as host:
            for call in case.get("calls", []):
                reply = host.invoke(call["operation"], call["arguments"])
                found = {"data": reply.data, "failure": reply._native.failure()}
                found["receipt"] = reply.receipt.raw if reply.receipt else {}
                found["denials"] = found["receipt"].get("denials", [])
                expected = {key: call[key] for key in ("data", "failure", "denials", "receipt") if key in call}
                self.assertEqual(differences(expected, found, call["operation"]), [])
            for run in case.get("runs", []):
                document = run["workflow"]
                workflow = opcell.Workflow.compile(document["name"], "\n".join(document["lines"]))
                started = host.start(workflow, run["input"], detach=True)
                outcome = started.outcome()
                if "answer" in run:
                    answer = run["answer"]
                    host.run_by_id(started.id).approve(answer["question"], by="ann", why=answer["why"])
                    outcome = host.resume(started.id).outcome()
                self.assertEqual(differences(run["outcome"], outcome.raw, document["name"]), [])
                if "events" in run:
                    kinds = [event.kind for event in host.run_by_id(started.id).history()]
                    self.assertEqual(kinds, run["events"], document["name"])


if __name__ == "__main__":
    unittest.main()
