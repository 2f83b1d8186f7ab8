//! Showing the page: in the desktop's browser, or by words on how to reach it from elsewhere.

use crate::{embedded, say::say};
use anyhow::Result;
use std::{
    env,
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// Whether somebody at this machine could see a browser.
pub fn has_display() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && !is_set("SSH_CONNECTION")
}

/// How to reach the page from the machine that one sits at.
pub fn say_tunnel(port: u16) {
    say!(
        "cutrace: to open it on your own machine, type there: ssh -L {port}:127.0.0.1:{port} {}",
        host()
    );
}

/// What this machine is called from outside: the address that somebody logged in to, or its name.
fn host() -> String {
    let connection = env::var("SSH_CONNECTION").unwrap_or_default();
    let address = connection.split_whitespace().nth(2).map(str::to_owned);
    let name = || fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = address.or_else(name).unwrap_or_default();
    match host.trim() {
        "" => "HOST".to_owned(),
        host => host.to_owned(),
    }
}

/// The desktop's browser, if there is one: the address was said in any case. Command lines are seen by
/// everybody: the browser is given a page that only this user can read, and that leads there.
pub fn open(address: &str) {
    let Ok(page) = redirect(address) else {
        return;
    };
    let opened = Command::new("xdg-open")
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        // Waited for, so that it is not left a zombie.
        Ok(mut browser) => drop(thread::spawn(move || browser.wait())),
        Err(_) => drop(fs::remove_file(&page)),
    }
}

/// A page that leads to an address. Those of processes that have ended are removed.
fn redirect(address: &str) -> Result<PathBuf> {
    let folder = embedded::cache_folder("view")?;
    for entry in fs::read_dir(&folder)?.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".html"));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let page = folder.join(format!("{}.html", std::process::id()));
    let _ = fs::remove_file(&page);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&page)?;
    write!(
        file,
        "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\n\
         <meta http-equiv=refresh content=\"0; url={address}\"><a href=\"{address}\">the report</a>\n"
    )?;
    Ok(page)
}
