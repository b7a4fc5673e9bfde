//! The binary: everything is in the library, so that tests and benchmarks reach it.

fn main() -> std::process::ExitCode {
    anode::cli::run()
}
