return eval("(".repeat(100000));
