"""An operation and a judge. `opcell plugin build` builds `dist/{{name}}.wasm` from them."""

from opcell import judge, operation


@operation("{{name}}/greet", effects="pure")
def greet(name: str) -> dict[str, str]:
    "Greets a person by name."
    return {"greeting": f"Hello, {name}!"}


@judge("{{name}}/tone", outcomes=["polite", "rude"])
def tone(text: str) -> str:
    "Says whether a text is polite."
    return "polite" if "please" in text.lower() else "rude"
