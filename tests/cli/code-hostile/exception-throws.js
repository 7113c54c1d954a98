throw { get name() { for (;;); }, get message() { throw 1; }, toString() { throw 2; } };
