"""The adapter for the OpenAI Agents SDK, with the library itself and a scripted model."""

import json
import unittest

from agents import Agent, RunConfig, Runner
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import scripted
from opcell.openai_agents import operation_tools


class Scripted(Model):
    def __init__(self):
        self.inputs, self.tools = [], []

    async def get_response(self, system_instructions, input, model_settings, tools, *args, **kwargs):
        self.inputs.append(input)
        self.tools = tools
        if len(self.inputs) == 1:
            output = [
                ResponseFunctionToolCall(
                    arguments=json.dumps(arguments), call_id=name, name=name, type="function_call"
                )
                for name, arguments in scripted.CALLS
            ]
        else:
            text = ResponseOutputText(annotations=[], text=scripted.DONE, type="output_text")
            message = {"id": "m", "content": [text], "role": "assistant", "status": "completed", "type": "message"}
            output = [ResponseOutputMessage(**message)]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class Adapter(unittest.IsolatedAsyncioTestCase):
    async def test_operations_are_tools_whose_failures_the_model_reads(self):
        model, replies = Scripted(), scripted.Replies()
        with scripted.host() as host:
            tools = operation_tools(host, scripted.OFFERED, on_reply=replies)
            agent = Agent(name="agent", model=model, tools=tools)
            ended = await Runner.run(agent, "Go on.", run_config=RunConfig(tracing_disabled=True))
            broken = await tools[0].on_invoke_tool(None, "{")
        self.assertEqual(ended.final_output, scripted.DONE)
        answers = {i["call_id"]: i["output"] for i in model.inputs[1] if i.get("type") == "function_call_output"}
        self.assertEqual(json.loads(answers["echo_echo"]), {"text": "hello"})
        self.assertEqual(json.loads(answers["code_run"])["result"], 1400)
        self.assertTrue(answers["repo_inventory"].startswith("Error: " + scripted.REFUSAL), answers)
        self.assertIn(scripted.REMEDY, answers["repo_inventory"])
        self.assertIn("not JSON", broken)
        replies.check(self)
        self.assertEqual([tool.name for tool in model.tools], ["echo_echo", "repo_inventory", "code_run"])
        self.assertIn("source", model.tools[2].params_json_schema["properties"])
