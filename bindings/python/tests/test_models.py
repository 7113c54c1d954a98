"""Python functions as models, the text of models as it comes, and tenants."""

import asyncio
import os
import tempfile
import threading
import unittest
from pathlib import Path

import opcell
from opcell import Answer, Grant, Host, Plugin, Tenant, ToolRequest, Workflow

REPOSITORY = Path(os.environ["OPCELL_REPOSITORY"])
SHOP = (REPOSITORY / "bindings/cases/shop.wasm").read_bytes()


def asking(model, tools="[]"):
    return Workflow.compile(
        "ask.edn",
        f"""
        {{:name "ask" :description "Asks a model"
         :steps [{{:name "ask" :type :session :tools {tools} :model "{model}"
                  :contributions [{{:type :template :text "Say hello."}}]}}]}}
        """,
    )


class Models(unittest.TestCase):
    def answer(self, model, **options):
        with Host(model=model) as host:
            return host.run(asking("any/model"), **options)

    def test_a_function_answers_whatever_a_session_names_and_sees_the_conversation(self):
        rounds = []

        def model(round):
            rounds.append(round)
            return f"{round.model} says hello"

        outcome = self.answer(model)
        self.assertEqual(outcome.result, "any/model says hello")
        self.assertEqual([message.role for message in rounds[0].messages], ["user"])
        self.assertEqual(rounds[0].messages[0].content, "Say hello.")
        self.assertEqual((rounds[0].run, rounds[0].schema), (outcome.run, None))

    def test_a_provider_answers_for_its_own_models_also_as_a_coroutine(self):
        async def mine(round):
            await asyncio.sleep(0)
            return Answer(f"mine: {round.model}", input_tokens=3, output_tokens=4, cost=0.5)

        with Host(providers={"mine": mine}) as host:
            outcome = host.run(asking("mine/large"))
            other = host.run(asking("other/large"))
        self.assertEqual(outcome.result, "mine: mine/large")
        self.assertEqual(outcome.raw["used"]["tokens"], 7, outcome.raw["used"])
        self.assertEqual(other.status, "failed")

    def test_a_model_calls_tools_and_reads_what_they_answer(self):
        seen = []

        def price(article: int) -> int:
            """Returns a price."""
            return article * 100

        def model(round):
            seen.append(round)
            if len(seen) == 1:
                return Answer(tool_calls=[ToolRequest("c1", "shop.price", {"article": 7})])
            return f"It costs {round.messages[-1].content}."

        with Host(model=model, tools=[opcell.Tool(price, name="shop.price")]) as host:
            outcome = host.run(asking("any/model", '["shop.price"]'))
        self.assertEqual(outcome.result, "It costs 700.")
        self.assertEqual([message.role for message in seen[1].messages], ["user", "assistant", "tool"])
        self.assertEqual(seen[1].messages[1].tool_calls, [ToolRequest("c1", "shop.price", {"article": 7})])
        self.assertEqual(seen[1].messages[2].tool_call_id, "c1")
        self.assertEqual(seen[0].tools[0]["name"], "shop.price")

    def test_text_comes_as_events_before_the_answer(self):
        gone_on = threading.Event()

        def model(round):
            yield "hel"
            self.assertTrue(gone_on.wait(60))
            yield "lo"
            yield Answer(output_tokens=2)

        with Host(model=model) as host:
            run = host.start(asking("any/model"), text=True)
            seen = []
            for update in run.events():
                if isinstance(update, opcell.Text):
                    seen.append(update.text)
                    gone_on.set()
                elif update.kind == "run-finished":
                    seen.append("end")
            outcome = run.outcome()
            self.assertEqual((seen, outcome.result), (["hel", "lo", "end"], "hello"))
            kinds = {type(update) for update in host.start(asking("any/model")).events()}
        self.assertEqual(kinds, {opcell.Event})

    def test_an_asynchronous_generator_is_a_model_as_well(self):
        async def model(round):
            for piece in ["a", "b"]:
                await asyncio.sleep(0)
                yield piece

        self.assertEqual(self.answer(model).result, "ab")

    def test_whatever_a_model_does_is_a_failure_of_its_round(self):
        def raising(error):
            raise error

        def recursing(n):
            return recursing(n + 1)

        def unfit():
            yield 1

        hostile = {
            "raises": (lambda round: raising(ValueError("x" * 1_000_000)), "model-failed"),
            "exits": (lambda round: raising(SystemExit(3)), "model-failed"),
            "recurses": (lambda round: recursing(0), "model-failed"),
            "answers with an object": (lambda round: object(), "model-failed"),
            "answers with nothing": (lambda round: None, "model-failed"),
            "yields what is no text": (lambda round: unfit(), "model-failed"),
            "answers with a number": (lambda round: Answer(content=1), "malformed-result"),
            "fails": (lambda round: raising(opcell.ToolFailure("no-model", "there is none")), "no-model"),
        }
        for name, (model, reason) in hostile.items():
            with self.subTest(name):
                outcome = self.answer(model)
                self.assertEqual((outcome.status, outcome.reason), ("failed", reason), outcome)
                self.assertLess(len(outcome.message), 5_000)

    def test_a_model_that_yields_without_end_ends_with_its_run(self):
        ended = threading.Event()

        def model(round):
            try:
                while True:
                    yield "more "
            finally:
                ended.set()

        with Host(model=model) as host:
            run = host.start(asking("any/model"))
            run.cancel("enough")
            self.assertEqual(run.outcome().status, "cancelled")
            self.assertTrue(ended.wait(60))

    def test_what_is_no_function_is_refused_at_once(self):
        with self.assertRaisesRegex(TypeError, "not str"):
            Host(model="gpt")


class Tenants(unittest.TestCase):
    def test_a_tenant_has_its_own_grants_and_models(self):
        tenants = []

        def price(article: int, context: opcell.ToolContext) -> int:
            """Returns a price."""
            tenants.append(context.tenant)
            return article

        host = Host(
            plugins=[Plugin("shop", SHOP)],
            tools=[opcell.Tool(price, name="shop.price")],
            providers={"mine": lambda round: "the host's"},
        )
        with host:
            granted = {"shop": [Grant.tool("shop.price")]}
            host.set_tenant(Tenant("acme", granted, providers={"mine": lambda round: "acme's"}))
            host.set_tenant(Tenant("other"))
            self.assertEqual(host.call("test/run", {"article": 7}, tenant="acme"), 7)
            denied = host.invoke("test/run", {"article": 7}, tenant="other")
            self.assertEqual(denied.receipt.denials[0].capability, "tool shop.price")
            unknown = host.invoke("test/run", {"article": 7}, tenant="unknown")
            self.assertEqual(unknown.error.code, "unknown-tenant")
            said = [host.run(asking("mine/m"), tenant=tenant).result for tenant in (None, "acme", "other")]
            self.assertEqual(said, ["the host's", "acme's", "the host's"])
            self.assertEqual((host.remove_tenant("acme"), host.remove_tenant("acme")), (True, False))
            self.assertEqual(host.invoke("test/run", {"article": 7}, tenant="acme").error.code, "unknown-tenant")
        self.assertEqual(tenants, ["acme"])

    def test_a_tenant_that_cannot_be_served_is_refused_and_shows_no_key(self):
        self.assertNotIn("secret", repr(Tenant("acme", model_keys={"openai": "secret"})))
        with Host(plugins=[Plugin("shop", SHOP)]) as host:
            for refused, code in [
                (Tenant("a/b"), "invalid-tenant-name"),
                (Tenant("acme", {"shopp": [Grant.tool("shop.price")]}), "unknown-plugin"),
                (Tenant("acme", providers={"nowhere": lambda round: ""}), "tenant-unusable"),
            ]:
                with self.subTest(code), self.assertRaises(opcell.RejectedError) as raised:
                    host.set_tenant(refused)
                self.assertEqual(raised.exception.code, code)
            with self.assertRaisesRegex(ValueError, "memory"):
                host.set_tenant(Tenant("acme", limits={"memory": "many"}))
            with self.assertRaises(TypeError):
                host.set_tenant(Tenant("acme", model_keys={"openai": 7}))


class Notebooks(unittest.TestCase):
    def test_a_run_is_shown_as_html_in_which_nothing_is_markup(self):
        hostile = "<script>alert('x')</script>"

        def price(article: str) -> str:
            """Returns a price."""
            raise opcell.ToolFailure("<b>no</b>", hostile)

        document = Workflow.compile(
            "w.edn",
            """
            {:name "w" :description "d"
             :steps [{:name "s" :type :invoke :operation "shop.price" :args {:article "<img src=x>"}}]}
            """,
        )
        with Host(tools=[opcell.Tool(price, name="shop.price")]) as host:
            run = host.start(document)
            outcome = run.outcome()
            shown = [outcome._repr_html_(), run._repr_html_()]
        for page in shown:
            self.assertIn("&lt;script&gt;", page)
            for markup in ("<script", "<img", "<b>no"):
                self.assertNotIn(markup, page)
            self.assertIn("Receipts", page)
            self.assertIn("run-finished", page)

    def test_a_refusal_is_shown_with_what_would_allow_it(self):
        document = Workflow.compile(
            "w.edn",
            '{:name "w" :description "d" :steps [{:name "s" :type :invoke :operation "test/run" :args {:article 7}}]}',
        )
        tool = opcell.Tool(lambda article: 0, name="shop.price", description="d", schema={"type": "object"})
        with Host(plugins=[Plugin("shop", SHOP)], tools=[tool]) as host:
            outcome = host.run(document)
            page = outcome._repr_html_()
        self.assertIn("Denied", page)
        self.assertIn("&quot;name&quot;: &quot;shop.price&quot;", page)
        # After the end of the host what was read once is kept.
        self.assertEqual(outcome._repr_html_(), page)

    def test_a_run_is_shown_live(self):
        shown = []

        class Handle:
            def update(self, html):
                shown.append(html)

        class Display:
            HTML = staticmethod(lambda text: text)

            @staticmethod
            def display(html, display_id):
                shown.append(html)
                return Handle()

        import sys
        import types

        package = types.ModuleType("IPython")
        module = types.ModuleType("IPython.display")
        module.HTML, module.display = Display.HTML, Display.display
        sys.modules.update({"IPython": package, "IPython.display": module})
        self.addCleanup(lambda: [sys.modules.pop(name) for name in ("IPython", "IPython.display")])
        with Host(model=lambda round: "hello") as host:
            outcome = host.start(asking("any/model")).show()
        self.assertEqual(outcome.result, "hello")
        self.assertGreaterEqual(len(shown), 2)
        self.assertIn("completed", shown[-1])

    def test_the_demonstration_denies_grants_and_asks(self):
        import contextlib
        import io

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            outcome = opcell.demo()
        self.assertEqual((outcome.status, outcome.result), ("completed", 700))
        for piece in ("tool shop.price is denied", "opcell plugin grant code tool shop.price", "1400", "Buy it?"):
            self.assertIn(piece, printed.getvalue())
        self.assertIn("run-finished", outcome._repr_html_())


if __name__ == "__main__":
    unittest.main()
