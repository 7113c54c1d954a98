try {
  await call("test/run", 7);
} catch (error) {
  return String(error);
}
