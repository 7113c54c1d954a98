# Catches what fails, alone and among others, and fails in the end.
import random
reasons = []
for n in (1, 2):
    try:
        tools.fail(n=n, luck=random.random())
    except ToolError as error:
        reasons.append(error.reason)
settled = await asyncio.gather(tools.fail(n=3), tools.put(n=4), return_exceptions=True)
tools.send(to="ann")
raise ValueError(f"{reasons} {[type(one).__name__ for one in settled]}")
