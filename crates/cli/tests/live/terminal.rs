//! The screen in a real terminal, tmux's: keys, sizes, colours, and that the terminal is as before however it ends.

use crate::{common, eventually, training};
use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

struct Tmux {
    socket: String,
    folder: tempfile::TempDir,
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

impl Tmux {
    /// A terminal of this size in which `cutrace top OPTIONS training WORDS` runs; afterwards the terminal's settings are
    /// written to a file.
    fn start(size: (u32, u32), variables: &str, options: &str, words: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if Command::new("tmux").arg("-V").output().is_err() {
            common::skip("tmux is not installed");
            return None;
        }
        common::limit();
        let folder = tempfile::tempdir().expect("a folder");
        let program = training(folder.path())?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux {
            socket: format!("cutrace-{}-{number}", std::process::id()),
            folder,
        };
        let script = tmux.folder.path().join("run");
        let text = format!(
            "stty -a > before\nexport LC_ALL=C.UTF-8 CUTRACE_SOFTGPU_SMS=2 CUTRACE_SOFTGPU_MEM=8G {variables}\n\
             {} top --sim {options} {} {words}\necho \"status $?\" > status\nstty -a > after\nsleep 600\n",
            env!("CARGO_BIN_EXE_cutrace"),
            program.display()
        );
        fs::write(&script, text).expect("written");
        let (x, y) = (size.0.to_string(), size.1.to_string());
        let command = format!("cd {} && exec sh ./run", tmux.folder.path().display());
        let started = tmux.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &x,
            "-y",
            &y,
            &command,
        ]);
        started.expect("tmux starts");
        Some(tmux)
    }

    fn tmux(&self, words: &[&str]) -> Option<String> {
        let done = Command::new("tmux")
            .args(["-L", &self.socket])
            .args(words)
            .output();
        let done = done.ok().filter(|done| done.status.success())?;
        Some(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn press(&self, keys: &[&str]) {
        let words: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&words).expect("keys are sent");
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).unwrap_or_default()
    }

    /// Waits until all of these are on the screen.
    fn wait_for(&self, words: &[&str]) -> String {
        let mut shown = String::new();
        let began = std::time::Instant::now();
        loop {
            let seen = self.shown();
            if words.iter().all(|word| seen.contains(word)) {
                return seen;
            }
            if !seen.trim().is_empty() {
                shown = seen;
            }
            assert!(
                began.elapsed() < crate::PATIENCE,
                "never {words:?}; last seen:\n{shown}"
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(name)).ok()
    }

    /// The run is over: the terminal is as it was before. The status that the shell saw.
    fn is_given_back(&self) -> String {
        let after = eventually("the end", || {
            self.file("after").filter(|text| !text.is_empty())
        });
        let settings = |text: &str| {
            let words = text.split_once('\n').map_or("", |(_, rest)| rest);
            words.to_owned()
        };
        assert_eq!(
            settings(&after),
            settings(&self.file("before").expect("settings"))
        );
        assert!(
            after.contains(" icanon") && after.contains(" echo "),
            "{after}"
        );
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(state.as_deref().map(str::trim), Some("0 1"));
        self.file("status").expect("a status").trim().to_owned()
    }

    /// The process of this name below the terminal's shell.
    fn process(&self, name: &str) -> String {
        let shell = self
            .tmux(&["display-message", "-p", "#{pane_pid}"])
            .expect("a shell");
        let mut known = vec![shell.trim().to_owned()];
        eventually(name, || {
            let mut place = 0;
            while place < known.len() {
                let path = format!("/proc/{0}/task/{0}/children", known[place]);
                let children = fs::read_to_string(path).unwrap_or_default();
                for child in children.split_whitespace().map(str::to_owned) {
                    if !known.contains(&child) {
                        known.push(child);
                    }
                }
                place += 1;
            }
            let is_named = |pid: &&String| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|comm| comm.trim() == name)
            };
            known.iter().find(is_named).cloned()
        })
    }
}

fn kill(signal: &str, pid: &str) {
    let done = Command::new("kill")
        .args([signal, pid])
        .status()
        .expect("kill runs");
    assert!(done.success());
}

/// A screen with numbers on it.
const RUNNING: [&str; 3] = ["[functions]", "cuLaunchKernel", "steps"];

#[test]
fn keys_lead_through_the_screen() {
    let Some(tmux) = Tmux::start((80, 24), "", "-i 0.3", "100000 5") else {
        return;
    };
    let shown = tmux.wait_for(&RUNNING);
    assert!(
        shown.lines().count() <= 24 && shown.contains("q quit"),
        "{shown}"
    );
    tmux.press(&["3"]);
    tmux.wait_for(&["[kernels]", "forward_pass", "adam_update"]);
    tmux.press(&["2"]);
    tmux.wait_for(&["[categories]", "transfer", "kernel"]);
    tmux.press(&["4"]);
    tmux.wait_for(&["[errors", "cuMemAlloc_v2", "CUDA_ERROR_OUT_OF_MEMORY"]);
    tmux.press(&["6"]);
    // What the command prints is here and nowhere else.
    tmux.wait_for(&["[output]", " value "]);
    tmux.press(&["1", "/", "c", "u", "M", "e", "m", "c"]);
    tmux.wait_for(&["filter: cuMemc_", "cuMemcpyHtoD_v2"]);
    tmux.press(&["Enter"]);
    let shown = tmux.wait_for(&["filter 'cuMemc' hides"]);
    assert!(!shown.contains("cuLaunchKernel"), "{shown}");
    tmux.press(&["Enter"]);
    tmux.wait_for(&["calls", "longest", "A recent one", "ByteCount"]);
    tmux.press(&["Escape"]);
    tmux.wait_for(&["filter 'cuMemc' hides", "function (by time)"]);
    tmux.press(&["Escape"]);
    tmux.wait_for(&["function (by time)", "cuLaunchKernel"]);
    tmux.press(&["s"]);
    tmux.wait_for(&["function (by calls)", "cuLaunchKernel"]);
    tmux.press(&["t"]);
    let totals = tmux.wait_for(&["calls      mean  function (by calls)", "cuInit"]);
    let init = totals.lines().find(|line| line.ends_with("cuInit"));
    let words: Vec<&str> = init.expect("a line").split_whitespace().collect();
    assert_eq!(words[2], "1", "{totals}");
    tmux.press(&["t", "5"]);
    let processes = tmux.wait_for(&["[processes]", "all processes", "thread"]);
    let line = |name: &str| processes.lines().find(|line| line.contains(name));
    assert!(
        !line("all processes")
            .expect("a line")
            .starts_with("        0 ")
    );
    assert!(line("  thread ").expect("a line").starts_with("          "));
    tmux.press(&["Down", "Enter", "1"]);
    tmux.wait_for(&["training (", "[functions]", "cuLaunchKernel"]);
    tmux.press(&["p"]);
    tmux.wait_for(&["paused"]);
    tmux.press(&["p", "?"]);
    tmux.wait_for(&["save the last seconds as a trace"]);
    tmux.press(&["x", "w"]);
    tmux.wait_for(&["saved", "traces/trace_"]);
    let saved = fs::read_dir(tmux.folder.path().join("traces")).expect("a folder");
    let saved = saved
        .flatten()
        .find(|it| it.path().extension().is_some_and(|it| it == "arrows"));
    let report = common::cutrace()
        .args(["report", "top"])
        .arg(saved.expect("a trace").path())
        .output()
        .expect("cutrace runs");
    let report = String::from_utf8_lossy(&report.stdout);
    assert!(report.contains("cuLaunchKernel"), "{report}");
    // Ctrl-C is for the command, which dies of it, and cutrace as the command.
    tmux.press(&["C-c"]);
    assert_eq!(tmux.is_given_back(), "status 130");
    let end = tmux.shown();
    assert!(
        end.contains("cutrace: saved") && end.contains(" value "),
        "{end}"
    );
}

#[test]
fn it_follows_the_size_and_has_no_colours_if_asked() {
    let Some(tmux) = Tmux::start((40, 12), "NO_COLOR=1", "-i 0.3 --ascii", "100000 5") else {
        return;
    };
    let narrow = tmux.wait_for(&["[functions]", "cuLaunch"]);
    assert!(narrow.is_ascii(), "{narrow}");
    let coloured = tmux.tmux(&["capture-pane", "-p", "-e"]).expect("captured");
    for colour in 30..=37 {
        let code = format!("{colour}m");
        assert!(!coloured.contains(&code), "{coloured:?}");
    }
    tmux.tmux(&["resize-window", "-x", "120", "-y", "40"])
        .expect("resized");
    let wide = tmux.wait_for(&["? help", "calls/s", "mean"]);
    assert!(wide.lines().any(|line| line.len() > 80), "{wide}");
    tmux.tmux(&["resize-window", "-x", "10", "-y", "3"])
        .expect("resized");
    tmux.tmux(&["resize-window", "-x", "80", "-y", "24"])
        .expect("resized");
    tmux.wait_for(&RUNNING);
    // The command runs on when the screen is left.
    tmux.press(&["q"]);
    eventually("the screen goes", || {
        let state = tmux.tmux(&["display-message", "-p", "#{alternate_on}"])?;
        (state.trim() == "0").then_some(())
    });
    kill("-INT", &tmux.process("training"));
    assert_eq!(tmux.is_given_back(), "status 130");
}

#[test]
fn colours_are_there_otherwise() {
    let Some(tmux) = Tmux::start((80, 24), "TERM=screen-256color", "-i 0.3", "100000 5 quiet")
    else {
        return;
    };
    tmux.wait_for(&RUNNING);
    let coloured = tmux.tmux(&["capture-pane", "-p", "-e"]).expect("captured");
    assert!(coloured.contains("\x1b[3"), "{coloured:?}");
    kill("-KILL", &tmux.process("training"));
    assert_eq!(tmux.is_given_back(), "status 137");
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    for (signal, words, status) in [
        // Passed on to the command.
        ("-TERM", "100000 5 quiet", "status 143"),
        // For cutrace alone: what a panic or a bug would do.
        ("-ABRT", "100000 5 quiet", "status 134"),
    ] {
        let Some(tmux) = Tmux::start((80, 24), "", "-i 0.3", words) else {
            return;
        };
        tmux.wait_for(&RUNNING);
        let program = tmux.process("training");
        kill(signal, &tmux.process("cutrace"));
        assert_eq!(tmux.is_given_back(), status, "{signal}");
        if Path::new(&format!("/proc/{program}")).exists() {
            kill("-KILL", &program);
        }
    }
}

#[test]
fn the_end_of_the_command_is_the_end_of_the_screen() {
    let Some(tmux) = Tmux::start((80, 24), "", "-i 0.3 --command-output out.txt", "100 5") else {
        return;
    };
    assert_eq!(tmux.is_given_back(), "status 3");
    assert!(
        tmux.file("out.txt")
            .is_some_and(|text| text.contains("PASS training"))
    );
    assert!(tmux.shown().contains("the command's output is in out.txt"));
}

#[test]
fn a_terminal_that_is_closed_ends_the_command() {
    // With a shell as the leader of the terminal's session, and as its leader itself.
    for how in ["", "\nexec \\"] {
        let Some(tmux) = Tmux::start((80, 24), how, "-i 0.3", "100000 5 quiet") else {
            return;
        };
        tmux.wait_for(&RUNNING);
        let processes = ["training", "cutrace"].map(|name| tmux.process(name));
        tmux.tmux(&["kill-server"]).expect("tmux ends");
        for process in processes {
            eventually("the command ends, and cutrace", || {
                (!Path::new(&format!("/proc/{process}")).exists()).then_some(())
            });
        }
    }
}
