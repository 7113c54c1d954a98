"""The adapter for the Claude Agent SDK: its in-process server, as the SDK itself calls it. No model and no CLI."""

import json
import unittest

from claude_agent_sdk import ClaudeAgentOptions
from mcp.client import Client

import scripted
from opcell.claude_agent import operation_server


class Adapter(unittest.IsolatedAsyncioTestCase):
    async def test_operations_are_tools_of_a_server_whose_failures_the_model_reads(self):
        replies = scripted.Replies()
        with scripted.host() as host:
            server = operation_server(host, scripted.OFFERED, on_reply=replies)
            ClaudeAgentOptions(mcp_servers={"opcell": server}, allowed_tools=["mcp__opcell__echo_echo"])
            async with Client(server["instance"]) as client:
                offered = (await client.list_tools()).tools
                answers = {name: await client.call_tool(name, given) for name, given in scripted.CALLS}
        self.assertEqual([tool.name for tool in offered], ["echo_echo", "repo_inventory", "code_run"])
        text = {name: answer.content[0].text for name, answer in answers.items()}
        failed = {name: answer.is_error for name, answer in answers.items()}
        self.assertEqual(json.loads(text["echo_echo"]), {"text": "hello"})
        self.assertEqual(json.loads(text["code_run"])["result"], 1400)
        self.assertEqual(failed, {"echo_echo": False, "repo_inventory": True, "code_run": False})
        self.assertIn(scripted.REFUSAL, text["repo_inventory"])
        self.assertIn(scripted.REMEDY, text["repo_inventory"])
        replies.check(self)
