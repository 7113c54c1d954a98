return 1n;
