const about = "bees";
await tools["test/run"]({ about });
