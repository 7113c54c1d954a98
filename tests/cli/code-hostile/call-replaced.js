call = () => 1;
