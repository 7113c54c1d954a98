const inner = () => {
  throw new RangeError("too far");
};
await null;
inner();
