try {
  await call("test/run", { about: "bees" });
} catch (error) {
  return { denied: error instanceof ToolDenied, name: error.name, rule: error.rule, remedy: error.remedy };
}
