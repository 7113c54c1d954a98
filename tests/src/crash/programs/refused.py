# Is refused a tool that the session does not have, and a call that a person does not want.
import random
reasons = []
tools.put(n=1, luck=random.random())
try:
    call("unknown", {})
except ToolDenied as error:
    reasons.append(type(error).__name__)
try:
    tools.ask(to="eve", luck=random.random())
except ToolError as error:
    reasons.append(error.reason)
tools.send(to="ann", luck=random.random())
return reasons
