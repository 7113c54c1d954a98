return [typeof process, typeof Deno, typeof WebAssembly, Function("return typeof this.require")()];
