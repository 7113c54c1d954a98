const all = [];
try {
  for (;;) all.push(new Array(1000).fill(1));
} catch (error) {
  all.length = 0;
  return String(error);
}
