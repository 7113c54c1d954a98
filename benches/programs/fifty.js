// The stock of a few shops: what is short, what it costs, whom to tell. Fifty lines, and three calls of a tool.
const stock = await tools.echo({
  shops: [
    { name: "harbour", items: [{ sku: "A-1", left: 3, price: 12.5 }, { sku: "B-7", left: 40, price: 2 }] },
    { name: "market", items: [{ sku: "A-1", left: 0, price: 12.5 }, { sku: "C-3", left: 8, price: 7.25 }] },
    { name: "station", items: [{ sku: "B-7", left: 1, price: 2 }, { sku: "D-9", left: 2, price: 99 }] },
  ],
});
const LEAST = { A: 5, B: 20, C: 5, D: 1 };
const least = (sku) => {
  const [, group] = /^([A-Z])-(\d+)$/.exec(sku) ?? [];
  return LEAST[group] ?? 0;
};
class Order {
  constructor(shop) {
    this.shop = shop;
    this.lines = new Map();
  }
  add({ sku, left, price }) {
    const missing = least(sku) - left;
    if (missing <= 0) return false;
    this.lines.set(sku, { missing, cost: missing * price });
    return true;
  }
  get cost() {
    return [...this.lines.values()].reduce((sum, { cost }) => sum + cost, 0);
  }
}
const orders = [];
for (const { name, items } of stock.shops) {
  const order = new Order(name);
  const added = items.filter((item) => order.add(item));
  if (added.length > 0) orders.push(order);
}
orders.sort((a, b) => b.cost - a.cost);
const budget = await tools.echo({ limit: 60, currency: "EUR" });
const [granted, refused] = [[], []];
let spent = 0;
for (const order of orders) {
  if (spent + order.cost <= budget.limit) {
    spent += order.cost;
    granted.push(order);
  } else {
    refused.push(order.shop);
  }
}
const letter = granted.map(({ shop, lines, cost }) => {
  const listed = [...lines].map(([sku, { missing }]) => `${String(missing).padStart(3)} x ${sku}`);
  return `${shop.padEnd(10)} ${cost.toFixed(2)} ${budget.currency}: ${listed.join(", ")}`;
});
const sent = await tools.echo({ to: "purchasing", letter });
console.log(`${sent.letter.length} orders, ${spent} ${budget.currency}`);
return { spent, refused, letter: sent.letter };
