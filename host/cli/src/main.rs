//! The `opcell` command.

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

fn main() -> std::process::ExitCode {
    opcell_cli::cli::main()
}
