for (;;) try { for (;;); } catch {}
