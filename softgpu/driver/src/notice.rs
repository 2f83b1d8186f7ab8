//! What softgpu could not do, on stderr: a program that ignores errors would go on with wrong results, and
//! nobody would know why. Each thing once, and not without end.

use std::sync::{LazyLock, Mutex, PoisonError};

/// `0` is for silence; anything else for details of every fault as well.
const VARIABLE: &str = "CUTRACE_SOFTGPU_VERBOSE";
const MOST: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    None,
    OfWhatCannotBeDone,
    All,
}

fn wanted() -> Words {
    static WANTED: LazyLock<Words> = LazyLock::new(|| match std::env::var_os(VARIABLE) {
        None => Words::OfWhatCannotBeDone,
        Some(value) if value == "0" => Words::None,
        Some(_) => Words::All,
    });
    *WANTED
}

/// Whether every fault is reported, with its place.
pub fn are_detailed() -> bool {
    wanted() == Words::All
}

/// Says it, if it has not been said.
pub fn say(text: &str) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    if wanted() == Words::None {
        return;
    }
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() > MOST || said.iter().any(|other| other == text) {
        return;
    }
    match said.len() {
        MOST => eprintln!("softgpu: further messages like this are not shown"),
        _ => eprintln!("softgpu: {text}"),
    }
    said.push(text.to_owned());
}
