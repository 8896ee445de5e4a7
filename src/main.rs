//! The `keywork` command.

use std::process::ExitCode;

use keywork::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before the arguments are parsed: this is how a server runs its own nats-server, and how a worker's
    // commands end with it.
    if let Some(code) = keywork::embedded::run_if_asked(std::env::args_os())
        .or_else(|| cli::guard_if_asked(std::env::args_os()))
    {
        return code;
    }
    let cli = Cli::read();
    match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(cli::run(cli)),
        Err(error) => {
            eprintln!("failed to start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}
