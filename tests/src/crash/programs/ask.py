# Asks a person: about one call, and about another at once with two that need no one.
import random
tools.put(n=1, luck=random.random())
tools.ask(to="ann", luck=random.random())
await asyncio.gather(tools.ask(to="bob", luck=random.random()), tools.put(n=2), tools.double(n=3))
return "asked"
