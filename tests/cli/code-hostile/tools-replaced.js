tools.echo = () => 1;
