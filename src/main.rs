//! The `keywork` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = keywork::embedded::run_if_asked(std::env::args_os()) {
        return code;
    }
    ExitCode::SUCCESS
}
