//! Set-up tasks.
fn main() {}
