# The stock of a few shops: what is short, what it costs, whom to tell. Fifty lines, and three calls of a tool.
import re

stock = await tools.echo(
    shops=[
        {"name": "harbour", "items": [{"sku": "A-1", "left": 3, "price": 12.5}, {"sku": "B-7", "left": 40, "price": 2}]},
        {"name": "market", "items": [{"sku": "A-1", "left": 0, "price": 12.5}, {"sku": "C-3", "left": 8, "price": 7.25}]},
        {"name": "station", "items": [{"sku": "B-7", "left": 1, "price": 2}, {"sku": "D-9", "left": 2, "price": 99}]},
    ]
)
LEAST = {"A": 5, "B": 20, "C": 5, "D": 1}


def least(sku):
    match = re.match(r"^([A-Z])-(\d+)$", sku)
    return LEAST.get(match[1], 0) if match else 0


class Order:
    def __init__(self, shop):
        self.shop = shop
        self.lines = {}

    def add(self, item):
        missing = least(item["sku"]) - item["left"]
        if missing <= 0:
            return False
        self.lines[item["sku"]] = {"missing": missing, "cost": missing * item["price"]}
        return True

    @property
    def cost(self):
        return sum(line["cost"] for line in self.lines.values())


orders = []
for shop in stock["shops"]:
    order = Order(shop["name"])
    if any([order.add(item) for item in shop["items"]]):
        orders.append(order)
orders.sort(key=lambda order: -order.cost)
budget = await tools.echo(limit=60, currency="EUR")
granted, refused, spent = [], [], 0
for order in orders:
    if spent + order.cost <= budget["limit"]:
        spent += order.cost
        granted.append(order)
    else:
        refused.append(order.shop)
letter = []
for order in granted:
    listed = ", ".join(f"{line['missing']:>3} x {sku}" for sku, line in order.lines.items())
    letter.append(f"{order.shop:<10} {order.cost:.2f} {budget['currency']}: {listed}")
sent = await tools.echo(to="purchasing", letter=letter)
print(f"{len(sent['letter'])} orders, {spent} {budget['currency']}")
return {"spent": spent, "refused": refused, "letter": sent["letter"]}
