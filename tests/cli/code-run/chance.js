const bytes = crypto.getRandomValues(new Uint8Array(16));
const draws = new Set(Array.from({ length: 2000 }, Math.random));
return {
  draws: draws.size,
  inside: [...draws].every((n) => n >= 0 && n < 1),
  bytes: new Set(bytes).size > 4,
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()),
  differ: crypto.randomUUID() !== crypto.randomUUID(),
};
