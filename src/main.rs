//! The binary `anode`: a call into the library, where tests and benchmarks reach everything.

fn main() -> std::process::ExitCode {
    anode::cli::run()
}
