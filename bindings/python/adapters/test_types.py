"""The types of the package, checked by mypy: the stub of the native module against the module, and every module."""

import subprocess
import sys
import unittest


def mypy(*arguments):
    command = [sys.executable, "-m", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


class Types(unittest.TestCase):
    def test_the_stub_is_what_the_native_module_has(self):
        status, said = mypy("mypy.stubtest", "opcell._native")
        self.assertEqual(status, 0, said)

    def test_every_module_has_the_types_that_it_claims(self):
        # Libraries that adapters are for need not be here.
        options = ["--strict", "--no-warn-return-any", "--ignore-missing-imports", "--no-warn-unused-ignores"]
        status, said = mypy("mypy", *options, "--allow-untyped-calls", "--allow-subclassing-any", "-p", "opcell")
        self.assertEqual(status, 0, said)

    def test_a_program_is_checked_against_them(self):
        program = """
from opcell import Answer, Event, Host, Plugin, Receipt, Round, Suspended, Tenant, Text, Workflow

def model(round: Round) -> Answer:
    return Answer(round.messages[0].content, output_tokens=1)

host = Host(plugins=[Plugin.code()], providers={"mine": model})
host.set_tenant(Tenant("acme", limits={"memory": "16 MiB"}))
receipt: Receipt | None = host.invoke("code/run", {}, timeout=2.0).receipt
for update in host.start(Workflow.load("w.edn"), text=True).events():
    if isinstance(update, Text):
        print(update.text, update.effect)
    elif isinstance(update, Suspended):
        print(update.questions[0].id)
    elif isinstance(update, Event):
        event: Event = update
"""
        self.assertEqual(mypy("mypy", "--strict", "-c", program)[0], 0, mypy("mypy", "--strict", "-c", program)[1])
        status, said = mypy("mypy", "--strict", "-c", 'import opcell\nopcell.Host(plugin=[])\nopcell.Tenant(7)\n')
        self.assertEqual(status, 1)
        self.assertIn('Unexpected keyword argument "plugin"', said)
        self.assertIn('"Tenant" has incompatible type "int"', said)
