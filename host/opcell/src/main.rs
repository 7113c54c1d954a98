//! The `opcell` command.

fn main() -> std::process::ExitCode {
    opcell::cli::main()
}
