"""A notebook, in a kernel of Jupyter: runs as HTML, their progress, and waiting beside the kernel's own event loop."""

import unittest

import nbformat
from nbclient import NotebookClient

CELLS = [
    "import opcell\noutcome = opcell.demo()",
    "outcome",
    """
host = opcell.Host(model=lambda round: "hello")
document = opcell.Workflow.compile("ask.edn", '''{:name "ask" :description "Asks a model"
 :steps [{:name "ask" :type :session :model "any/model" :contributions [{:type :template :text "Hello." :vars {}}]}]}''')
shown = host.start(document).show()
""",
    "(await host.arun(document)).result",
    "host.close()",
]


def executed():
    """The outputs of each cell, after the notebook was run from its beginning to its end."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


class Notebook(unittest.TestCase):
    maxDiff = None

    def test_a_notebook_shows_runs_while_they_go_and_when_they_have_ended(self):
        demonstration, outcome, live, awaited, closed = executed()
        printed = "".join(output["text"] for output in demonstration if output["output_type"] == "stream")
        self.assertIn("tool shop.price is denied", printed)
        [html] = [output["data"]["text/html"] for output in outcome if "text/html" in output.get("data", {})]
        self.assertIn("run-finished", html)
        # One display that was updated: the outputs of a cell hold its last state.
        [html] = [output["data"]["text/html"] for output in live if "text/html" in output.get("data", {})]
        self.assertIn("completed", html)
        self.assertEqual([output["data"]["text/plain"] for output in awaited], ["'hello'"])
        self.assertEqual(closed, [])


if __name__ == "__main__":
    unittest.main()
