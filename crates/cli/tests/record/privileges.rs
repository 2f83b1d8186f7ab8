//! Commands that run as another user than the tracer: under sudo, and by su and setpriv in them. They
//! are traced, and nobody can do more than before.

use super::{path, program};
use crate::common::{cutrace, limit, read, skip, usual_signals};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};
use tempfile::TempDir;

/// A user of this test alone, who may use sudo. Gone with it.
struct User {
    name: String,
    uid: u32,
    sudoers: PathBuf,
    /// What the user can read and write.
    folder: TempDir,
}

impl User {
    /// None where there is no right to make one.
    fn new() -> Option<User> {
        // SAFETY: a question without side effects.
        if unsafe { libc::geteuid() } != 0 {
            skip("making a user needs root");
            return None;
        }
        if !Path::new("/usr/bin/sudo").exists() {
            skip("sudo is not installed; type: scripts/setup-packages test");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cutrace{}x{number}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        let made = Command::new("useradd")
            .args(["--no-create-home", "--shell", "/bin/sh", "--home-dir"])
            .arg(folder.path())
            .arg(&name)
            .output();
        let made = made.expect("useradd runs");
        assert!(made.status.success(), "{made:?}");
        let id = Command::new("id").args(["-u", &name]).output().expect("id");
        let uid = String::from_utf8_lossy(&id.stdout).trim().parse();
        let sudoers = PathBuf::from(format!("/etc/sudoers.d/{name}"));
        let user = User {
            uid: uid.expect("a number"),
            sudoers,
            folder,
            name,
        };
        fs::write(
            &user.sudoers,
            format!("{} ALL=(ALL) NOPASSWD: ALL\n", user.name),
        )
        .expect("written");
        fs::set_permissions(&user.sudoers, PermissionsExt::from_mode(0o440)).expect("set");
        std::os::unix::fs::chown(user.folder.path(), Some(user.uid), None).expect("given");
        Some(user)
    }

    /// A program that the user can run: the checkout may be in root's home.
    fn program(&self, name: &str) -> Option<PathBuf> {
        let copy = self.folder.path().join(name);
        fs::copy(program(name)?, &copy).expect("copied");
        fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).expect("set");
        Some(copy)
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("new/trace.jsonl")
    }

    /// `sudo cutrace …`, typed by the user.
    fn sudo(&self, words: &[&str]) -> Output {
        limit();
        let mut command = Command::new("su");
        usual_signals(&mut command);
        command
            .args([&*self.name, "-c", "exec sudo -n \"$0\" \"$@\"", "--"])
            .arg(cutrace().get_program())
            .args(words)
            .current_dir(self.folder.path());
        command.output().expect("su runs")
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.sudoers);
        let _ = Command::new("userdel").arg(&self.name).output();
    }
}

/// What the calls in a trace were of, and how many there were.
fn calls(trace: &Path, name: &str) -> usize {
    let lines = read(trace);
    lines
        .iter()
        .filter(|line| line["type"] == "userspace" && line["name"] == name && line["phase"] == "B")
        .count()
}

const WHO: &str = "echo \"$(id -u) $(id -G | wc -w) $HOME $USER\"; exec \"$0\"";

#[test]
fn under_sudo_the_command_is_the_users_and_is_traced() {
    let Some(user) = User::new() else { return };
    let Some(program) = user.program("vector_add") else {
        return;
    };
    let mut methods = vec!["preload", "preload,cupti", "preload,syscall", "auto"];
    if capture_ebpf_works() {
        methods.push("preload,ebpf");
    }
    let (trace, home) = (user.trace(), user.folder.path().display().to_string());
    for method in methods {
        let method = format!("--method={method}");
        let words = [
            "--sim",
            "-o",
            path(&trace),
            &method,
            "sh",
            "-c",
            WHO,
            path(&program),
        ];
        let output = user.sudo(&words);
        let name = format!("{method}: {output:?}");
        assert!(output.status.success(), "{name}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let who = format!("{} 1 {home} {}\n", user.uid, user.name);
        assert!(said.starts_with(&who) && said.contains("PASS"), "{name}");
        assert_eq!(calls(&trace, "cudaMalloc"), 3, "{name}");
        // The trace and the folder that was made for it are the user's, and nobody else reads them.
        for made in [&*trace, trace.parent().expect("a folder")] {
            let found = fs::metadata(made).expect("there");
            assert_eq!(found.uid(), user.uid, "{}: {name}", made.display());
        }
        assert_eq!(
            fs::metadata(&trace).expect("there").mode() & 0o777,
            0o600,
            "{name}"
        );
        fs::remove_dir_all(trace.parent().expect("a folder")).expect("removed");
    }
}

fn capture_ebpf_works() -> bool {
    let doctor = cutrace().arg("doctor").output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let works = said
        .lines()
        .any(|line| line.trim_start().starts_with("uprobe ") && line.contains("yes"));
    if !works {
        skip(&format!("uprobes do not work here: {said}"));
    }
    works
}

#[test]
fn root_stays_root_where_that_is_asked_for() {
    let Some(user) = User::new() else { return };
    let trace = user.trace();
    let output = user.sudo(&["-o", path(&trace), "-q", "--user", "root", "id", "-u"]);
    assert_eq!(output.stdout, b"0\n", "{output:?}");
    let output = user.sudo(&["-o", path(&trace), "-q", "--user", &user.name, "id", "-un"]);
    let name = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(name.trim(), user.name, "{output:?}");
}

/// Root's command becomes another user's by itself.
#[test]
fn commands_that_drop_their_rights_are_traced() {
    let Some(user) = User::new() else { return };
    let Some(program) = user.program("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("root's own folder");
    let trace = folder.path().join("trace.jsonl");
    let id = user.uid.to_string();
    let (reuid, regid) = (format!("--reuid={id}"), format!("--regid={id}"));
    let script = format!("exec {}", program.display());
    let commands: [&[&str]; 3] = [
        &["setpriv", &reuid, &regid, "--clear-groups", path(&program)],
        &["su", &user.name, "-c", &script],
        &[
            "sh",
            "-c",
            "su \"$0\" -c \"$1\"; exit $?",
            &user.name,
            &script,
        ],
    ];
    for words in commands {
        let mut command = cutrace();
        command
            .args(["record", "--sim", "-o"])
            .arg(&trace)
            .args(words);
        let output = command.output().expect("cutrace runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("PASS"),
            "{output:?}"
        );
        assert_eq!(calls(&trace, "cudaMalloc"), 3, "{words:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("Events lost: 0"), "{words:?}: {said}");
    }
}

/// What the user who runs the command can do to the tracer's files: leave some, and nothing else.
#[test]
fn a_session_is_no_way_to_the_tracers_files() {
    let Some(user) = User::new() else { return };
    let script = r#"
        session=$CUTRACE_SESSION library=${LD_PRELOAD##*:}
        test -r "$session/options" || echo options cannot be read
        test -x "$library" || echo library cannot be read
        ls "$session" >/dev/null 2>&1 && echo session is listed
        ls "${session%/*}" >/dev/null 2>&1 && echo folder is listed
        rm -f "$session/options" 2>/dev/null; test -e "$session/options" || echo options removed
        mv "$session/options" "$session/mine" 2>/dev/null && echo options renamed
        (echo x >> "$session/options") 2>/dev/null && echo options written
        (echo x >> "$library") 2>/dev/null && echo library written
        (echo x > "${library%/*}/planted.so") 2>/dev/null && echo library planted
        # None of these holds the tracer up, or is written to.
        for name in ring.1.1.0 process.1.0 arena.1.0; do
            ln -s /etc/passwd "$session/$name" || echo nothing can be left
        done
        mkfifo "$session/ring.2.2.0" "$session/process.2.0" "$session/arena.2.0"
        exit 6
    "#;
    let before = fs::read("/etc/passwd").expect("there");
    let output = user.sudo(&[
        "-o",
        path(&user.trace()),
        "-q",
        "--method=preload,cupti",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "", "{output:?}");
    assert_eq!(fs::read("/etc/passwd").expect("there"), before);
}
