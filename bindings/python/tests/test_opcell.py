"""The package as a user has it: installed, with no Rust on the path."""

import asyncio
import dataclasses
import enum
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import typing
import unittest
from pathlib import Path

import opcell
from opcell import Grant, Host, Plugin, Workflow

REPOSITORY = Path(os.environ["OPCELL_REPOSITORY"])
OPERATIONS = REPOSITORY / "example-operations/dist"
CASES = REPOSITORY / "bindings/cases"

ECHO = Plugin("echo", OPERATIONS / "echo.wasm")

SHIP = """
{:name "ship" :description "Ships once a person has said so"
 :steps [{:name "note" :type :invoke :operation "echo/echo" :args {:order {:from :workflow-input :path [:order]}}}
         {:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "end" :type :exit :status :success :output {:from {:step "note" :output :data} :path [:order]}}]}
"""

STOP = '{:name "stop" :description "Fails" :steps [{:name "e" :type :exit :status :failed :output "no"}]}'

PRICES = """
{:name "prices" :description "Asks a tool of the program"
 :steps [{:name "price" :type :invoke :operation "shop.price" :args {:article {:from :workflow-input :path [:article]}}}
         {:name "end" :type :exit :status :success :output {:from {:step "price" :output :data}}}]}
"""


BUY = """
{:name "buy" :description "A model that buys"
 :steps [{:name "buy" :type :session :tools ["shop.buy"] :approve :always
          :contributions [{:type :template :text "Buy something." :vars {}}]}]}
"""

BUYER = """
version: 1
order: any
turns:
  - when: { round: 0 }
    tool-calls:
      - { name: shop.buy, arguments: { amount: 500 } }
  - when: { round: 1 }
    text: "Bought."
"""


def ship():
    return Workflow.compile("ship.edn", SHIP)


def shop(*grants):
    return Plugin("shop", (CASES / "shop.wasm").read_bytes(), grants=list(grants))


def folder(test):
    made = tempfile.TemporaryDirectory()
    test.addCleanup(made.cleanup)
    return Path(made.name)


def script(text, *arguments, **options):
    """Starts another Python with a program."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


class Calls(unittest.TestCase):
    def test_a_pure_call_returns_its_data_and_has_a_receipt(self):
        with Host(plugins=[ECHO]) as host:
            self.assertEqual(host.call("echo/echo", {"text": "hello"}), {"text": "hello"})
            reply = host.invoke("echo/echo", {"n": [1, None, {"deep": True}]})
        self.assertTrue(reply.ok)
        self.assertEqual(reply.result(), {"n": [1, None, {"deep": True}]})
        self.assertEqual((reply.receipt.plugin, reply.receipt.operation), ("echo", "echo/echo"))
        self.assertGreater(reply.receipt.peak_memory, 0)
        self.assertEqual(reply.receipt.denials, [])

    def test_operations_are_listed_with_their_schemas(self):
        with Host(plugins=[ECHO]) as host:
            (echo,) = host.operations()
        self.assertEqual((echo["id"], echo["effects"]), ("echo/echo", "pure"))

    def test_a_denied_call_says_what_would_allow_it_and_is_granted_then(self):
        files = folder(self)
        (files / "a.txt").write_text("one\n", encoding="utf-8")
        repo = Plugin("repo", OPERATIONS / "repo.wasm")
        with Host(plugins=[repo]) as host:
            reply = host.invoke("repo/inventory")
            (denial,) = reply.receipt.denials
            self.assertEqual(denial.capability, "files workspace")
            self.assertEqual(denial.remedy["kind"], "grant")
            self.assertEqual(reply.denial.remedy, denial.remedy)
            self.assertEqual(reply.denial.command, "opcell plugin grant repo files workspace=PATH")
            with self.assertRaises(opcell.Denied) as raised:
                host.call("repo/inventory")
            self.assertEqual(raised.exception.denial, reply.denial)
            self.assertIsNotNone(raised.exception.receipt)
        granted = dataclasses.replace(repo, grants=[Grant.read(denial.remedy["name"], files)])
        with Host(plugins=[granted]) as host:
            self.assertEqual(host.call("repo/inventory")["files"], 1)

    def test_exceptions_are_of_the_kind_of_the_failure(self):
        with Host(plugins=[ECHO]) as host:
            with self.assertRaises(opcell.UnknownOperation) as unknown:
                host.call("echo/nothing")
            with self.assertRaises(opcell.InvalidArguments):
                host.call("echo/echo", ["no object"])
            with self.assertRaises(LookupError):
                host.call("echo/nothing")
        restored = pickle.loads(pickle.dumps(unknown.exception))
        self.assertIsInstance(restored, opcell.UnknownOperation)
        self.assertEqual((restored.code, restored.kind), (unknown.exception.code, "unknown"))

    def test_what_is_not_json_is_refused_before_anything_runs(self):
        cycle = []
        cycle.append(cycle)
        wide = ["x" * 1_000]
        for _ in range(30):
            wide = [wide, wide]
        wrong = [{"a": {1}}, {1: "a"}, {"a": float("nan")}, {"a": 1 << 64}, {"a": "\ud800"}, {"a": cycle}, {"a": wide}]
        with Host(plugins=[ECHO]) as host:
            for arguments in wrong:
                with self.assertRaises(TypeError):
                    host.call("echo/echo", arguments)

    def test_a_host_that_is_closed_accepts_no_calls(self):
        host = Host(plugins=[ECHO]).open()
        host.close()
        host.close()
        with self.assertRaises(opcell.Closing):
            host.call("echo/echo", {})

    def test_settings_that_are_wrong_are_named(self):
        with self.assertRaisesRegex(ValueError, "memory"):
            Host(plugins=[ECHO], limits={"memory": "many"}).open()
        with self.assertRaises(opcell.OpcellError) as twice:
            Host(plugins=[ECHO, ECHO]).open()
        self.assertEqual(twice.exception.code, "duplicate")
        with self.assertRaises(opcell.RejectedError) as missing:
            Host("no-such-project.toml").open()
        self.assertEqual(missing.exception.findings[0].code, "project-file-unreadable")

    def test_plugins_are_compiled_in_a_child_by_the_program_in_the_package(self):
        compiler = Path(opcell.__file__).parent / "opcell-compile"
        self.assertTrue(os.access(compiler, os.X_OK))
        away = folder(self)
        ended = script(
            """
            import opcell, sys
            opcell._host._COMPILER = opcell._host._Path("/nowhere")
            opcell.Host(plugins=[opcell.Plugin("echo", sys.argv[1])]).open()
            """,
            OPERATIONS / "echo.wasm",
            env={**os.environ, "HOME": str(away), "PATH": str(away)},
        )
        _, said = ended.communicate()
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("opcell-compile", said)

    def test_threads_call_at_once(self):
        found = []
        with Host(plugins=[ECHO]).open() as host:

            def work(n):
                found.extend(host.call("echo/echo", {"n": n})["n"] for _ in range(20))

            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(found), sorted(n for n in range(8) for _ in range(20)))


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_calls_of_an_event_loop_are_in_flight_together(self):
        async with Host(plugins=[ECHO]) as host:
            await host.aopen()
            replies = await asyncio.gather(*(host.acall("echo/echo", {"n": n}) for n in range(50)))
            with self.assertRaises(opcell.UnknownOperation):
                await host.acall("echo/nothing")
            reply = await host.ainvoke("echo/nothing")
        self.assertEqual([reply["n"] for reply in replies], list(range(50)))
        self.assertIsInstance(reply.error, opcell.UnknownOperation)

    async def test_a_cancelled_task_cancels_its_call(self):
        begun, seen = threading.Event(), threading.Event()
        host = Host(plugins=[shop(Grant.tool("shop.price"))])

        @host.tool(name="shop.price")
        def price(article: int, context: opcell.ToolContext) -> int:
            """Waits until its caller is gone."""
            begun.set()
            while not context.cancelled:
                time.sleep(0.005)
            seen.set()
            return article

        async with host:
            call = asyncio.create_task(host.acall("test/run", {"article": 7}))
            await asyncio.to_thread(begun.wait)
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(seen.wait)

    async def test_a_run_is_followed_and_approved(self):
        async with Host(plugins=[ECHO]) as host:
            run = await host.astart(ship(), {"order": 17})
            kinds = []
            async for update in run.aevents():
                if isinstance(update, opcell.Suspended):
                    self.assertEqual(update.questions[0].text, "Ship it?")
                    await run.aapprove("ship", by="ann")
                else:
                    kinds.append(update.kind)
            outcome = await run.aoutcome()
        self.assertEqual((outcome.status, outcome.result), ("completed", 17))
        self.assertEqual((kinds[0], kinds[-1]), ("run-started", "run-finished"))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Tools(unittest.TestCase):
    def host(self, function, **options):
        host = Host(plugins=[shop(Grant.tool("shop.price"))])
        host.tool(function, name="shop.price", **options)
        self.addCleanup(host.close)
        return host

    def test_a_python_function_is_a_tool_of_plugins_and_of_documents(self):
        seen = []

        def price(article: int, context: opcell.ToolContext) -> int:
            """Returns the price of an article in cents."""
            seen.append((context.caller, context.plugin, context.user))
            return article * 100

        host = self.host(price)
        self.assertEqual(host.call("test/run", {"article": 7}, user="ann"), 700)
        outcome = host.run(Workflow.compile("prices.edn", PRICES), {"article": 3})
        self.assertEqual((outcome.status, outcome.result), ("completed", 300))
        self.assertEqual(seen, [("plugin", "shop", "ann"), ("step", None, None)])

    def test_without_the_grant_the_function_is_not_called(self):
        host = Host(plugins=[shop()])
        called = []

        @host.tool(name="shop.price")
        def price(article: int) -> int:
            """Returns a price."""
            called.append(article)
            return 0

        with host:
            reply = host.invoke("test/run", {"article": 7})
        self.assertEqual(reply.receipt.denials[0].capability, "tool shop.price")
        self.assertEqual(called, [])

    def test_the_schema_follows_from_the_type_hints(self):
        def draw(
            size: Size,
            color: Color,
            mode: typing.Literal["fast", "slow"],
            tags: "list[str]",
            title: typing.Annotated[typing.Optional[str], "Shown above."] = None,
        ) -> str:
            """Draws.

            More of it.
            """
            return f"{size.width}x{size.height} {color.name} {mode} {tags}"

        made = opcell.Tool(draw)
        self.assertEqual(made.description, "Draws.")
        size = {
            "type": "object",
            "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}},
            "required": ["width"],
            "additionalProperties": False,
        }
        self.assertEqual(
            made.schema,
            {
                "type": "object",
                "properties": {
                    "size": size,
                    "color": {"enum": ["red", "blue"]},
                    "mode": {"enum": ["fast", "slow"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Shown above."},
                },
                "required": ["size", "color", "mode", "tags"],
                "additionalProperties": False,
            },
        )
        host = self.host(draw)
        arguments = {"size": {"width": 3}, "color": "blue", "mode": "fast", "tags": ["a"]}
        self.assertEqual(host.call("test/run", arguments), "3x1 BLUE fast ['a']")

    def test_arguments_that_do_not_match_never_reach_the_function(self):
        def price(article: int) -> int:
            """Returns a price."""
            raise AssertionError("it was called")

        reply = self.host(price).invoke("test/run", {"article": "seven"})
        self.assertEqual(reply.error.code, "invalid-arguments")

    def test_a_coroutine_is_a_tool_as_well(self):
        async def price(article: int) -> int:
            """Returns a price."""
            await asyncio.sleep(0)
            return article

        self.assertEqual(self.host(price).call("test/run", {"article": 7}), 7)

    def test_whatever_a_function_does_is_a_failure_with_a_receipt(self):
        def recursing(n):
            return recursing(n + 1)

        def endless():
            while True:
                yield 1

        class Hostile(Exception):
            def __str__(self):
                raise ValueError("no text")

        cyclic = []
        cyclic.append(cyclic)

        def raising(error):
            raise error

        hostile = {
            "raises": (lambda: raising(ValueError("x" * 1_000_000)), "tool-failed"),
            "raises what has no text": (lambda: raising(Hostile()), "tool-failed"),
            "exits": (lambda: sys.exit(3), "tool-failed"),
            "interrupts": (lambda: raising(KeyboardInterrupt()), "tool-failed"),
            "recurses": (lambda: recursing(0), "tool-failed"),
            "returns a generator": (endless, "malformed-result"),
            "returns a cycle": (lambda: cyclic, "malformed-result"),
            "returns an object": (lambda: object(), "malformed-result"),
            "returns what is not a number": (lambda: float("inf"), "malformed-result"),
            "fails": (lambda: raising(opcell.ToolFailure("no-such-article", "no article 7")), "no-such-article"),
        }
        what = {}

        def price(case: str) -> typing.Any:
            """Does what it is told to."""
            return what["does"]()

        host = self.host(price)
        for name, (does, reason) in hostile.items():
            with self.subTest(name):
                what["does"] = does
                reply = host.invoke("test/run", {"case": name})
                self.assertFalse(reply.ok)
                # The plugin passes the failure of the tool on as its own.
                self.assertEqual(reply.error.code, reason)
                self.assertEqual(reply.receipt.operation, "test/run")
                self.assertLess(len(reply.error.message), 5_000)
        what["does"] = lambda: 1
        self.assertEqual(host.call("test/run", {"case": "returns"}), 1)

    def test_a_function_that_blocks_ends_by_the_time_of_the_call(self):
        let_go = threading.Event()
        self.addCleanup(let_go.set)

        def price(article: int) -> int:
            """Waits for the test."""
            let_go.wait()
            return 0

        host = self.host(price)
        reply = host.invoke("test/run", {"article": 7}, timeout=3)
        self.assertIsInstance(reply.error, opcell.CallTimeout)
        self.assertEqual(reply.receipt.operation, "test/run")

    def test_tools_come_before_the_first_use(self):
        with Host(plugins=[ECHO]).open() as host, self.assertRaisesRegex(RuntimeError, "built already"):

            @host.tool
            def late() -> None:
                """Comes too late."""

    def test_a_type_without_a_schema_is_named(self):
        def price(article: object) -> int:
            """Returns a price."""
            return 0

        with self.assertRaisesRegex(TypeError, "`article` of the tool `price`"):
            opcell.Tool(price)


class Runs(unittest.TestCase):
    def test_a_run_waits_for_its_approval_and_completes(self):
        journal = folder(self) / "runs.db"
        with Host(plugins=[ECHO], journal=journal) as host:
            outcome = host.run(ship(), {"order": 17})
            self.assertTrue(outcome.suspended)
            (question,) = outcome.questions
            self.assertEqual((question.kind, question.name, question.text), ("signal", "ship", "Ship it?"))
            host.run_by_id(outcome.run).approve(question.id, by="ann", why="paid")
            outcome = host.resume(outcome.run).outcome()
            self.assertEqual((outcome.status, outcome.result), ("completed", 17))
            history = host.run_by_id(outcome.run).history()
            self.assertTrue(any(event.receipt for event in history))
            with self.assertRaises(opcell.RunError):
                host.run_by_id(outcome.run).approve("ship")

    def test_the_arguments_of_a_models_call_are_changed(self):
        project = folder(self) / "opcell.toml"
        project.write_text('[sessions]\nscript = "script.yaml"\ncontext-files = "none"\n')
        (project.parent / "script.yaml").write_text(BUYER)
        bought = []

        def buy(amount: int) -> str:
            """Buys something."""
            bought.append(amount)
            return "bought"

        with Host(project=project, tools=[opcell.Tool(buy, name="shop.buy")]) as host:
            outcome = host.run(Workflow.compile("buy.edn", BUY))
            (question,) = outcome.questions
            self.assertEqual((question.kind, question.tool, question.arguments), ("call", "shop.buy", {"amount": 500}))
            run = host.run_by_id(outcome.run)
            for unfit in [{"arguments": {"amount": "20"}}, {"values": {}}, {"why": "less"}]:
                with self.assertRaises(opcell.RunError) as raised:
                    run.approve(question.id, **unfit)
                self.assertEqual(raised.exception.code, "answer-not-taken")
            run.approve(question.id, by="ann", arguments={"amount": 20})
            outcome = host.resume(outcome.run).outcome()
        self.assertEqual((outcome.status, bought), ("completed", [20]))

    def test_an_effect_that_is_not_in_doubt_is_not_settled(self):
        with Host(plugins=[ECHO]) as host:
            run = host.run_by_id(host.run(ship(), {"order": 17}).run)
            with self.assertRaises(opcell.RunError) as raised:
                run.settle(1, "retry", by="ann")
            self.assertEqual(raised.exception.code, "not-asked")
            with self.assertRaisesRegex(ValueError, "`redo`"):
                run.settle(1, "redo")

    def test_a_run_that_fails_says_why(self):
        with Host() as host:
            failed = host.run(Workflow.compile("stop.edn", STOP))
        self.assertEqual((failed.status, failed.step), ("failed", "e"))

    def test_a_document_that_is_wrong_says_where(self):
        with self.assertRaises(opcell.RejectedError) as wrong:
            Workflow.compile("w.edn", '{:name "w" :steps [{:name "a" :type :nothing}]}')
        self.assertTrue(wrong.exception.findings)
        with Host() as host, self.assertRaises(opcell.RejectedError) as unknown:
            host.run(ship(), {"order": 1})
        self.assertEqual(unknown.exception.code, "unknown-operation")

    def test_a_run_of_a_process_that_was_killed_is_resumed_and_approved(self):
        journal = folder(self) / "runs.db"
        killed = script(
            """
            import opcell, sys, threading
            echo, journal, document = sys.argv[1:]
            host = opcell.Host(plugins=[opcell.Plugin("echo", echo)], journal=journal)
            run = host.start(opcell.Workflow.compile("ship.edn", document), {"order": 17})
            for update in run.events():
                if isinstance(update, opcell.Suspended):
                    print(run.id, flush=True)
                    threading.Event().wait()
            """,
            OPERATIONS / "echo.wasm",
            journal,
            SHIP,
        )
        id = killed.stdout.readline().strip()
        os.kill(killed.pid, signal.SIGKILL)
        _, said = killed.communicate()
        self.assertTrue(id, said)
        with Host(plugins=[ECHO], journal=journal) as host:
            resumed = host.resume_all(detach=False)
            self.assertEqual(list(resumed), [id])
            run = resumed[id]
            run.approve("ship", by="ann")
            outcome = run.outcome()
        self.assertEqual((outcome.run, outcome.status, outcome.result), (id, "completed", 17))


class Processes(unittest.TestCase):
    def test_an_interrupt_ends_a_call_that_waits(self):
        waiting = script(
            """
            import opcell, signal, sys, threading
            # A job in the background of a shell begins with interrupts ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            host = opcell.Host(plugins=[opcell.Plugin("shop", sys.argv[1], grants=[opcell.Grant.tool("shop.price")])])

            @host.tool(name="shop.price")
            def price(article: int) -> int:
                "Never answers."
                print("waits", flush=True)
                threading.Event().wait()

            try:
                host.call("test/run", {"article": 7})
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            print(host.invoke("test/run", {}).error.code, flush=True)
            """,
            CASES / "shop.wasm",
        )
        self.assertEqual(waiting.stdout.readline(), "waits\n")
        os.kill(waiting.pid, signal.SIGINT)
        printed, said = waiting.communicate()
        # The thread of the tool still blocks, and does not hold up the end of the program.
        self.assertEqual((printed, waiting.returncode), ("interrupted\nbusy\n", 0), said)

    def test_after_a_fork_a_host_refuses_with_a_sentence(self):
        forked = script(
            """
            import opcell, os, sys
            host = opcell.Host(plugins=[opcell.Plugin("echo", sys.argv[1])]).open()
            child = os.fork()
            if child == 0:
                try:
                    host.call("echo/echo", {})
                except opcell.ForkError as error:
                    print(error, flush=True)
                sys.exit(7)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), host.call("echo/echo", {"n": 1}), flush=True)
            """,
            OPERATIONS / "echo.wasm",
        )
        printed, said = forked.communicate()
        sentence, last = printed.splitlines()
        self.assertIn("forked", sentence)
        self.assertEqual((last, forked.returncode), ("7 {'n': 1}", 0), said)

    def test_a_child_that_was_forked_before_the_first_use_has_hosts_of_its_own(self):
        forked = script(
            """
            import opcell, os, sys
            child = os.fork()
            host = opcell.Host(plugins=[opcell.Plugin("echo", sys.argv[1])])
            assert host.call("echo/echo", {"n": 1}) == {"n": 1}
            if child:
                _, status = os.waitpid(child, 0)
                print(os.waitstatus_to_exitcode(status), flush=True)
            """,
            OPERATIONS / "echo.wasm",
        )
        printed, said = forked.communicate()
        self.assertEqual((printed, forked.returncode), ("0\n", 0), said)

    def test_the_page_on_python_works_as_it_is_written(self):
        page = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
        pieces = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertGreaterEqual(len(pieces), 5)
        home = folder(self)
        shutil.copytree(OPERATIONS, home / "plugins")
        shutil.copy(CASES / "shop.wasm", home / "plugins")
        (home / "notes").mkdir()
        (home / "notes/a.md").write_text("# One\n", encoding="utf-8")
        (home / "opcell.toml").write_text('[plugins.echo]\npath = "plugins/echo.wasm"\ndev = true\n', encoding="utf-8")
        ended = script("\n".join(pieces), cwd=home)
        printed, said = ended.communicate()
        self.assertEqual(ended.returncode, 0, said)
        shown = "".join(re.findall(r"```text prints\n(.*?)```", page, re.DOTALL))
        self.assertEqual(printed, shown)


if __name__ == "__main__":
    unittest.main()
