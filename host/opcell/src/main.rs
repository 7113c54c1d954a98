//! The `opcell` command.
fn main() {}
