"""The doubles of `opcell.testing`, by the plugin that all SDKs are held to."""

import unittest

import plugin  # noqa: F401 (its operations)
from opcell import Denied, Failure, tools
from opcell.testing import Host, decide, invoke


class Kit(unittest.TestCase):
    def test_doubles_serve_what_a_host_serves(self):
        self.assertEqual(invoke("kit/echo", value=3), {"value": 3})
        self.assertEqual(decide("kit/tone", text="please").outcome, "polite")
        with self.assertRaises(Denied):
            invoke("kit/read", root="work", path="a")
        with Host(files={"work": {"a": "x" * 70000, "d/b": "bb"}}, stores={"notes": {}}, skills={"manners": "Hi"},
                  tools={"weather": lambda city: {"is": city}}) as host:
            self.assertEqual(len(invoke("kit/read", root="work", path="a")["text"]), 70000)
            with self.assertRaises(Failure) as missing:
                invoke("kit/read", root="work", path="no")
            self.assertEqual(missing.exception.reason, "file-not-found")
            with self.assertRaises(Failure) as missing:
                invoke("kit/read", root="work", path="d")
            self.assertEqual(missing.exception.reason, "not-a-file")
            self.assertEqual(invoke("kit/write", root="work", path="n", text="new"), {"written": 3})
            self.assertEqual(host.files["work"]["n"], b"new")
            self.assertEqual(invoke("kit/tool", name="weather", input={"city": "Ulm"}), {"answer": {"is": "Ulm"}})
            self.assertEqual(invoke("kit/tool", name="other", input={}), {"denied": "tool other"})
            self.assertEqual(invoke("kit/skill", name="manners"), {"body": "Hi"})
            kept = invoke("kit/keep", name="notes", key="k", value="v")
            self.assertEqual((kept["conflict"], kept["kept"], kept["rest"], kept["deleted"]), ("v", "v!", ["zz"], [True, False]))
            listed = invoke("kit/list", root="work", path="")
            self.assertEqual([entry["name"] for entry in listed["entries"]], ["a", "d", "n"])
            invoke("kit/note", text="x")
            self.assertEqual(host.log, ["first x", "second x", "half"])
            self.assertEqual(list(host.stores["notes"]), ["zz"])
        with self.assertRaises(Failure):
            invoke("kit/fail", reason="odd")

    def test_several_calls_are_started_at_once(self):
        def halve(of):
            if of % 2:
                raise Failure("odd", f"{of} is odd")
            return of // 2

        with Host(tools={"halve": halve}):
            self.assertEqual(tools.call_all(("halve", {"of": 2}), ("halve", {"of": 6})), [1, 3])
            with self.assertRaises(Failure) as odd:
                tools.call_all(("halve", {"of": 2}), ("halve", {"of": 3}), ("none", {}))
            self.assertEqual(odd.exception.reason, "odd")
            first, timer = tools.start("halve", of=8), tools.start_timer(5)
            ended = tools.wait_any([timer, first])
            self.assertEqual((ended.call, ended.result()), (first, 4))
            self.assertIsNone(tools.wait_any([timer]).result())
            with self.assertRaises(Failure) as again:
                tools.wait_any([first])
            self.assertEqual(again.exception.reason, "unknown-call")
            with self.assertRaises(Denied):
                tools.start("none")


if __name__ == "__main__":
    unittest.main()
