"""Starts, follows, approves and forks a run with a client that was generated from the server's description."""

import sys
import time

folder, address = sys.argv[1:]
sys.path.insert(0, folder)

from generated import Client
from generated.api.runs import approve_run, fork_run, get_run, list_events, list_runs, start_run
from generated.models import ApproveBody, ForkBody, Problem, StartBody

client = Client(base_url=f"http://{address}")


def waited(run, status):
    for _ in range(1200):
        found = get_run.sync("default", run, client=client)
        if str(found.status) == status:
            return found
        time.sleep(0.05)
    raise SystemExit(f"{run} is {found.status}, not {status}")


started = start_run.sync("default", client=client, body=StartBody(workflow="ask", run="c1"))
assert started.run == "c1", started
asked = waited("c1", "suspended")
question = asked.questions[0].signal
assert question.approval and question.name == "ship", question
events = list_events.sync("default", "c1", client=client)
assert events.events[0].kind == "run-started" and events.events[0].seq == 1, events
approve_run.sync("default", "c1", client=client, body=ApproveBody(question=question.id, why="fine"))
done = waited("c1", "completed")
assert done.used.visits == 1, done.used
fork = fork_run.sync("default", "c1", client=client, body=ForkBody(at=2))
assert fork.forked.run == "c1" and fork.forked.seq == 2, fork
waited(fork.run, "suspended")
assert {run.run for run in list_runs.sync("default", client=client).runs} == {"c1", fork.run}
missing = get_run.sync_detailed("default", "none", client=client)
assert missing.status_code == 404, missing
assert isinstance(missing.parsed, Problem) or b"unknown-run" in missing.content, missing
print("done")
