"""Arguments and tools that are other people's, and interpreters that are not the main one."""

import os
import subprocess
import sys
import textwrap
import threading
import unittest
from pathlib import Path

import opcell
from opcell import Grant, Host, Plugin

REPOSITORY = Path(os.environ["OPCELL_REPOSITORY"])
ECHO = Plugin("echo", REPOSITORY / "example-operations/dist/echo.wasm")
SHOP = (REPOSITORY / "bindings/cases/shop.wasm").read_bytes()


class Arguments(unittest.TestCase):
    def test_arguments_that_another_thread_changes_are_read_as_they_were_or_refused(self):
        changing, over = {"list": [1], "dict": {"a": 1}}, threading.Event()

        def change():
            n = 0
            while not over.is_set():
                n += 1
                changing["list"].append(n)
                changing["dict"][str(n)] = [n]
                if n % 50 == 0:
                    changing["list"].clear()
                    changing["dict"].clear()

        thread = threading.Thread(target=change)
        thread.start()
        try:
            with Host(plugins=[ECHO]) as host:
                for _ in range(100):
                    reply = host.call("echo/echo", changing)
                    self.assertEqual(sorted(reply), ["dict", "list"])
        finally:
            over.set()
            thread.join()

    def test_arguments_whose_classes_run_code_harm_nothing(self):
        given = {}

        class Dict(dict):
            def items(self):
                given.clear()
                return [("a", 1)]

            def __iter__(self):
                given.clear()
                return iter(["b"])

            def __len__(self):
                return 1 << 40

        class List(list):
            def __len__(self):
                given.clear()
                return 1 << 40

            def __getitem__(self, index):
                raise ValueError("no such item")

        class Text(str):
            def encode(self, *options):
                raise ValueError("no bytes")

        with Host(plugins=[ECHO]) as host:
            for hostile in (Dict(a=1), List([1, 2]), Text("text")):
                given.update({"hostile": hostile, "more": [1, 2, 3]})
                try:
                    host.call("echo/echo", given)
                except (TypeError, ValueError, RuntimeError):
                    pass
            self.assertEqual(host.call("echo/echo", {"n": 1}), {"n": 1})


class Tools(unittest.TestCase):
    def test_a_tool_may_change_its_arguments_while_another_call_has_its_own(self):
        both, seen = threading.Barrier(2), []

        def price(articles: list) -> int:
            """Returns a price."""
            both.wait(60)
            articles.append(len(articles))
            both.wait(60)
            seen.append(list(articles))
            return len(articles)

        host = Host(plugins=[Plugin("shop", SHOP, [Grant.tool("shop.price")])])
        host.tool(price, name="shop.price")
        shared = {"articles": [7]}
        with host.open():
            calls = [threading.Thread(target=host.call, args=("test/run", shared)) for _ in range(2)]
            for call in calls:
                call.start()
            for call in calls:
                call.join()
        self.assertEqual((seen, shared), ([[7, 1], [7, 1]], {"articles": [7]}))

    def test_a_tool_calls_the_host_that_calls_it(self):
        host = Host(plugins=[ECHO, Plugin("shop", SHOP, [Grant.tool("shop.price")])])

        @host.tool(name="shop.price")
        def price(article: int) -> int:
            """Returns a price."""
            return host.call("echo/echo", {"n": article})["n"]

        with host:
            self.assertEqual(host.call("test/run", {"article": 7}), 7)

    def test_a_tool_that_closes_its_host_ends_its_call(self):
        host = Host(plugins=[Plugin("shop", SHOP, [Grant.tool("shop.price")])])

        @host.tool(name="shop.price")
        def price(article: int) -> int:
            """Closes the host."""
            host.close(grace=0)
            return article

        with host:
            reply = host.invoke("test/run", {"article": 7})
        self.assertIsInstance(reply, opcell.Reply)


class Interpreters(unittest.TestCase):
    def test_a_second_interpreter_is_refused_or_harms_nothing(self):
        program = """
            import opcell, sys
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            other = interpreters.create()
            refused = None
            try:
                refused = interpreters.run_string(other, "import opcell")
            except Exception as error:
                refused = error
            print("refused" if refused is not None and "ImportError" in repr(refused) + str(refused) else "imported")
            with opcell.Host(plugins=[opcell.Plugin("echo", sys.argv[1])]) as host:
                print(host.call("echo/echo", {"n": 1}), flush=True)
        """
        command = [sys.executable, "-c", textwrap.dedent(program), str(ECHO.component)]
        ended = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        refused, called = ended.stdout.splitlines()
        self.assertEqual(called, "{'n': 1}")
        if sys.version_info >= (3, 12):
            self.assertEqual(refused, "refused", ended.stderr)


if __name__ == "__main__":
    unittest.main()
