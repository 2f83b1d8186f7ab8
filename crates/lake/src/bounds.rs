//! How much a program that answers may take: time, rows, bytes.

use crate::error::QueryError;
use std::{
    io::{self, Read},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How often it is looked whether it is done.
const LOOK: Duration = Duration::from_millis(10);
/// What is kept of what it complains about.
const COMPLAINT: u64 = 16 << 10;

/// What a query may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub rows: u64,
    pub bytes: u64,
    pub time: Duration,
}

impl Bounds {
    /// What the program prints, or why there is nothing of it.
    pub(crate) fn run(&self, command: &mut Command) -> io::Result<Result<String, QueryError>> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let most = self.bytes;
        let read = |from: Option<Box<dyn Read + Send>>, most: u64| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let done = from.map(|from| from.take(most).read_to_end(&mut bytes));
                done.transpose().map(|_| bytes)
            })
        };
        // One more than it may print; then the pipe is closed, which ends it.
        let out = read(out.map(|out| Box::new(out) as _), most.saturating_add(1));
        let err = read(err.map(|err| Box::new(err) as _), COMPLAINT);
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if began.elapsed() > self.time {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(LOOK);
        };
        let text = |reader: thread::JoinHandle<io::Result<Vec<u8>>>| -> io::Result<Vec<u8>> {
            reader.join().unwrap_or_else(|_| Ok(Vec::new()))
        };
        let (out, err) = (text(out)?, text(err)?);
        Ok(match status {
            None => Err(QueryError::TooSlow(self.time)),
            Some(_) if out.len() as u64 > most => Err(QueryError::TooLong(most)),
            Some(status) if !status.success() => {
                let said = String::from_utf8_lossy(&err);
                Err(QueryError::Refused(said.trim().to_owned()))
            }
            Some(_) => Ok(String::from_utf8_lossy(&out).into_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, bytes: u64, time: Duration) -> Result<String, QueryError> {
        let bounds = Bounds {
            rows: 1,
            bytes,
            time,
        };
        let mut command = Command::new("sh");
        bounds.run(command.args(["-c", script])).expect("it starts")
    }

    #[test]
    fn what_is_too_long_or_too_much_is_refused() {
        let second = Duration::from_secs(20);
        assert_eq!(run("echo yes", 10, second), Ok("yes\n".into()));
        let refused = QueryError::Refused("no".into());
        assert_eq!(run("echo no >&2; exit 1", 10, second), Err(refused));
        assert_eq!(run("yes", 1000, second), Err(QueryError::TooLong(1000)));
        let little = Duration::from_millis(50);
        let late = run("exec sleep 20", 10, little);
        assert_eq!(late, Err(QueryError::TooSlow(little)));
    }
}
