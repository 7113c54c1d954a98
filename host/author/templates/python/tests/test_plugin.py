"""Unit tests: `PYTHONPATH=sdk:src python3 -m unittest discover tests`."""

import unittest

import plugin  # noqa: F401 (its operations)
from opcell.testing import Host, decide, invoke


class Plugin(unittest.TestCase):
    def test_a_person_is_greeted_by_name(self):
        # Doubles of tools, skills, files and stores are arguments of `Host`.
        with Host():
            self.assertEqual(invoke("{{name}}/greet", name="Ada"), {"greeting": "Hello, Ada!"})
            self.assertEqual(decide("{{name}}/tone", text="Would you close the door, please?").outcome, "polite")
