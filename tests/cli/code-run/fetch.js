fetch("https://example.com");
