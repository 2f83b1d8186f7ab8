//! Runs its arguments as cutrace runs a command: launch CMD [ARGS…]. The tests watch it from outside.

use capture::launch::{self, Command};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let command = Command {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        environment: Vec::new(),
    };
    match launch::run(&command) {
        Ok(exit) => exit.pass_on(),
        Err(error) => {
            eprintln!("launch: {error}");
            std::process::exit(error.exit_code().into());
        }
    }
}
