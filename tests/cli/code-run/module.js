await import("fs");
