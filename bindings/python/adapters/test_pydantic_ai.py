"""The adapter for Pydantic AI, with the library itself and a scripted model."""

import unittest

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

import scripted
from opcell.pydantic_ai import operation_tools


class Adapter(unittest.IsolatedAsyncioTestCase):
    async def test_operations_are_tools_whose_failures_the_model_reads(self):
        rounds, offered = [], []

        def answer(messages, info):
            rounds.append(messages)
            offered.extend(info.function_tools)
            if len(rounds) == 1:
                return ModelResponse([ToolCallPart(name, arguments, name) for name, arguments in scripted.CALLS])
            return ModelResponse([TextPart(scripted.DONE)])

        replies = scripted.Replies()
        with scripted.host() as host:
            tools = operation_tools(host, scripted.OFFERED, on_reply=replies)
            ended = await Agent(FunctionModel(answer), tools=tools).run("Go on.")
        self.assertEqual(ended.output, scripted.DONE)
        parts = {part.tool_call_id: part for part in rounds[1][-1].parts if isinstance(part, ToolReturnPart)}
        self.assertEqual(parts["echo_echo"].content, {"text": "hello"})
        self.assertEqual(parts["echo_echo"].metadata["receipt"]["operation"], "echo/echo")
        self.assertEqual(parts["code_run"].content["result"], 1400)
        refused = parts["repo_inventory"].model_response_str()
        self.assertIn(scripted.REFUSAL, refused)
        self.assertIn(scripted.REMEDY, refused)
        self.assertEqual(parts["repo_inventory"].outcome, "failed")
        replies.check(self)
        self.assertIn("source", offered[2].parameters_json_schema["properties"])
