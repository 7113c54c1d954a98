await new Promise((resolve) => setTimeout(resolve, 1e12));
