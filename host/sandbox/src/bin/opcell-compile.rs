//! Compiles one component from standard input to native code on standard output, for a host that does not bring its own
//! subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    opcell_sandbox::compile::child_main()
}
