"""The adapter for LangChain and LangGraph, with the libraries themselves and a scripted model."""

import json
import unittest

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

import scripted
from opcell.langchain import operation_tools


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def model():
    calls = [{"name": name, "args": arguments, "id": name} for name, arguments in scripted.CALLS]
    return Scripted(messages=iter([AIMessage(content="", tool_calls=calls), AIMessage(content=scripted.DONE)]))


class Adapter(unittest.IsolatedAsyncioTestCase):
    def check(self, state, replies):
        self.assertEqual(state["messages"][-1].content, scripted.DONE)
        answers = {m.tool_call_id: m for m in state["messages"] if isinstance(m, ToolMessage)}
        self.assertEqual(json.loads(answers["echo_echo"].content), {"text": "hello"})
        self.assertEqual(answers["echo_echo"].artifact["receipt"]["operation"], "echo/echo")
        self.assertEqual(json.loads(answers["code_run"].content)["result"], 1400)
        self.assertEqual(answers["repo_inventory"].status, "error")
        self.assertIn(scripted.REFUSAL, answers["repo_inventory"].content)
        self.assertIn(scripted.REMEDY, answers["repo_inventory"].content)
        replies.check(self)

    async def test_an_agent_of_langgraph_calls_operations(self):
        asked = {"messages": [("user", "Go on.")]}
        with scripted.host() as host:
            replies = scripted.Replies()
            agent = create_agent(model(), tools=operation_tools(host, scripted.OFFERED, on_reply=replies))
            self.check(await agent.ainvoke(asked), replies)
            replies = scripted.Replies()
            agent = create_agent(model(), tools=operation_tools(host, scripted.OFFERED, on_reply=replies))
            self.check(agent.invoke(asked), replies)

    def test_the_schema_is_the_operations_own(self):
        with scripted.host() as host:
            tools = operation_tools(host, ["code/run"])
        self.assertIn("source", tools[0].tool_call_schema["properties"])
