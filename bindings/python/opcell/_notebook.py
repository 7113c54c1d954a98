"""Runs as HTML for notebooks, and the demonstration.

Texts of plugins, models and documents are other people's: every one is escaped, and truncated.
"""

from __future__ import annotations

import html
import json
import time
from typing import Any, Iterable, List, Optional, Sequence

from ._plugins import Grant, Plugin
from ._receipts import Receipt

MAX_ROWS = 200
"""Rows of a timeline: of a longer one the last."""

MAX_CHARS = 200
"""Characters of one cell."""

UPDATE_SECONDS = 0.1
"""The shortest time between two updates of a run that is shown live."""


def cell(value: Any) -> str:
    """Returns a value as text of HTML."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + "…"
    return html.escape(text, quote=True)


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    heads = "".join(f"<th style='text-align:left'>{cell(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _used(receipt: Receipt) -> List[Any]:
    called = receipt.operation or receipt.tool or ""
    return [called, f"{receipt.duration_us / 1000:.1f} ms", receipt.host_calls or "", receipt.error or ""]


def page(outcome: Any, events: Sequence[Any]) -> str:
    """Returns the state of a run, its open questions, denials, receipts and timeline as HTML."""
    said = [f"<b>{cell(outcome.workflow)}</b> {cell(outcome.status)} <code>{cell(outcome.run)}</code>"]
    if outcome.result is not None:
        said.append(f"<pre>{cell(outcome.result)}</pre>")
    if outcome.message:
        said.append(f"<p>{cell(outcome.reason or '')}: {cell(outcome.message)}</p>")
    if outcome.questions:
        rows = [(question.kind, question.step, question.id or "", question.text or "") for question in outcome.questions]
        said.append("<p>Waits for</p>" + _table(["kind", "step", "id", "question"], rows))
    receipts = [event.receipt for event in events if event.receipt is not None]
    denials = {denial.message: denial for receipt in receipts for denial in receipt.denials}
    if outcome.denial is not None:
        denials.setdefault(outcome.denial.message, outcome.denial)
    if denials:
        refused = [(denial.message, denial.command or denial.remedy) for denial in denials.values()]
        said.append("<p>Denied</p>" + _table(["denial", "allowed by"], refused[:MAX_ROWS]))
    if receipts:
        used = [_used(receipt) for receipt in receipts[-MAX_ROWS:]]
        said.append("<p>Receipts</p>" + _table(["call", "time", "host calls", "error"], used))
    if events:
        happened = [(event.seq, event.at, event.kind, event.data) for event in events[-MAX_ROWS:]]
        left = f" (the last {MAX_ROWS} of {len(events)})" if len(events) > MAX_ROWS else ""
        timeline = _table(["", "at", "event", "data"], happened)
        said.append(f"<details><summary>Timeline{left}</summary>{timeline}</details>")
    return "<div>" + "".join(said) + "</div>"


def show(run: Any) -> Any:
    """Shows a run in a notebook while it goes, and returns its outcome."""
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

    handle = display(HTML(page(run.state(), [])), display_id=True)
    events: "list[Any]" = []
    shown: Optional[float] = None
    for update in run.events():
        if hasattr(update, "kind"):
            events.append(update)
        now = time.monotonic()
        if shown is None or now - shown >= UPDATE_SECONDS:
            shown = now
            handle.update(HTML(page(run.state(), events)))
    outcome = run.outcome()
    handle.update(HTML(page(outcome, events)))
    return outcome


_PROGRAM = 'return (await call("shop.price", { article: input.article })) * 2;'

_DOCUMENT = """
{:name "demo" :description "Asks a tool of this program, and a person"
 :steps [{:name "price" :type :invoke :operation "shop.price" :args {:article 7}}
         {:name "ask" :type :wait :signal "buy" :approval true :question "Buy it?"}
         {:name "end" :type :exit :status :success :output {:from {:step "price" :output :data}}}]}
"""


def demo() -> Any:
    """Shows a denied call, the same call granted, and a run that waits for an approval; returns the run's outcome."""
    from ._host import Host
    from ._runs import Workflow
    from ._tools import Tool

    def price(article: int) -> int:
        """Returns the price of an article in cents."""
        return article * 100

    tools = [Tool(price, name="shop.price", effects="pure")]
    arguments = {"language": "javascript", "source": _PROGRAM, "input": {"article": 7}}
    print("A program in a cell calls a tool that it was not granted:")
    with Host(plugins=[Plugin.code()], tools=tools) as host:
        reply = host.invoke("code/run", arguments)
        print(f"  {reply.denial or reply.error}")
        print(f"  allowed by: {reply.denial.command if reply.denial else ''}")
    print("The same program with the grant:")
    with Host(plugins=[Plugin.code([Grant.tool("shop.price")])], tools=tools) as host:
        reply = host.invoke("code/run", arguments)
        print(f"  {reply.data['result'] if reply.ok else reply.error}, {reply.receipt}")
        print("A run that waits for an approval, and continues once it is there:")
        run = host.start(Workflow.compile("demo.edn", _DOCUMENT))
        for update in run.events():
            if hasattr(update, "questions"):
                print(f"  {update.questions[0].text}")
                run.approve("buy", by="demo")
        outcome = run.outcome()
        print(f"  {outcome.status}: {outcome.result}")
        # The history is read while there is a host.
        return outcome._with_history()
