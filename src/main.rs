fn main() -> std::process::ExitCode {
    anode::cli::run()
}
