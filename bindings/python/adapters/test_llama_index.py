"""The adapter for LlamaIndex, with the library itself and a scripted model."""

import json
import unittest

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import ToolSelection
from pydantic import PrivateAttr

import scripted
from opcell.llama_index import operation_tools


class Scripted(FunctionCallingLLM):
    _rounds: list = PrivateAttr(default_factory=list)
    _tools: list = PrivateAttr(default_factory=list)

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **kwargs):
        self._tools = list(tools)
        return {"messages": list(chat_history or [])}

    async def achat(self, messages, **kwargs):
        return self.chat(messages)

    def chat(self, messages, **kwargs):
        self._rounds.append(messages)
        text = scripted.DONE if len(self._rounds) > 1 else ""
        return ChatResponse(message=ChatMessage(role="assistant", content=text))

    async def astream_chat(self, messages, **kwargs):
        response = self.chat(messages)

        async def pieces():
            yield response

        return pieces()

    async def astream_chat_with_tools(self, tools, chat_history=None, **kwargs):
        return await self.astream_chat(**self._prepare_chat_with_tools(tools, chat_history=chat_history))

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **kwargs):
        if response.message.content == scripted.DONE:
            return []
        return [ToolSelection(tool_id=name, tool_name=name, tool_kwargs=given) for name, given in scripted.CALLS]

    def complete(self, *args, **kwargs):
        raise NotImplementedError

    acomplete = stream_complete = astream_complete = stream_chat = complete


class Adapter(unittest.IsolatedAsyncioTestCase):
    async def test_operations_are_tools_whose_failures_the_model_reads(self):
        model, replies = Scripted(), scripted.Replies()
        with scripted.host() as host:
            tools = operation_tools(host, scripted.OFFERED, on_reply=replies)
            ended = await FunctionAgent(tools=tools, llm=model).run("Go on.")
            output = tools[0](text="again")
        self.assertEqual(str(ended), scripted.DONE)
        outputs = {call.tool_name: call.tool_output for call in ended.tool_calls}
        self.assertEqual(json.loads(outputs["echo_echo"].content), {"text": "hello"})
        self.assertEqual(outputs["echo_echo"].raw_output["receipt"]["operation"], "echo/echo")
        self.assertEqual(json.loads(outputs["code_run"].content)["result"], 1400)
        self.assertTrue(outputs["repo_inventory"].is_error)
        said = " ".join(str(message.content) for message in model._rounds[1])
        self.assertIn(scripted.REFUSAL, said)
        self.assertIn(scripted.REMEDY, said)
        self.assertEqual(output.raw_output["data"], {"text": "again"})
        self.assertEqual(model._tools[2].metadata.get_parameters_dict()["type"], "object")
        self.assertIn("source", model._tools[2].metadata.to_openai_tool()["function"]["parameters"]["properties"])
