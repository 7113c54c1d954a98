//! Compiles one component from standard input to native code on standard output. In a package it is `opcell-compile`,
//! beside the module: an interpreter cannot be started again as a compiler.

use std::process::ExitCode;

fn main() -> ExitCode {
    opcell::layers::sandbox::compile::child_main()
}
