//! The operation of `opcell bench`, built natively: what its rows `process` and `pipe` start, small as such a program
//! would be.

use std::process::ExitCode;

fn main() -> ExitCode {
    let lines = std::env::args().nth(1).is_some();
    ExitCode::from(u8::from(!opcell_cli::bench::peer::native_echo_main(lines)))
}
