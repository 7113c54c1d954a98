# Calls in a loop, draws lots, reads the clock, and sleeps.
import random, time
seen = []
for n in range(3):
    doubled = tools.double(n=n)["n"]
    tools.put(n=doubled, luck=random.random() + time.time())
    seen.append(doubled)
await asyncio.sleep(0.003)
tools.send(to="ann", luck=random.random())
return seen
