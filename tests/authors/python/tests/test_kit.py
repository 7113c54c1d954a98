"""The doubles of `opcell.testing`, by the plugin that all SDKs are held to."""

import unittest

import plugin  # noqa: F401 (its operations)
from opcell import Denied, Failure
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


if __name__ == "__main__":
    unittest.main()
