for (;;) Date.now();
