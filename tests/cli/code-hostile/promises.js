const f = async () => {
  await null;
  return f();
};
await f();
