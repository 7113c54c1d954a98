# Calls several tools at once, also in functions that wait for one another.
import random
async def put(n):
    await tools.put(n=n, luck=random.random())
    return (await tools.double(n=n))["n"]
one, two, three = await asyncio.gather(put(1), put(2), tools.double(n=3))
await asyncio.wait([asyncio.create_task(put(n)) for n in (4, 5)])
tools.send(to="ann", luck=random.random())
return [one, two, three["n"]]
