//! `cutrace view`: the HTML report in a browser, served on loopback to whoever knows its address.

use super::input::Input;
use crate::{arguments::View, embedded, say::say};
use anyhow::{Context, Result};
use render::Html;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use trace::Parts;

pub fn run(options: View) -> Result<ExitCode> {
    let input = Input::open(
        options.traces,
        Parts {
            stack: true,
            ..Parts::NONE
        },
    )?;
    let mut page = Vec::new();
    let mut html = Html::new(&mut page, input.meta());
    input.show(&mut html)?;
    drop(html);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
        .with_context(|| format!("cannot serve on 127.0.0.1:{}", options.port))?;
    let port = listener.local_addr()?.port();
    let site = Arc::new(Site {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        path: format!("/{}/", secret()?),
        page,
    });
    let address = format!("http://127.0.0.1:{port}{}", site.path);
    say!("cutrace: the report is at {address} until Ctrl-C");
    if options.open {
        open(&address);
    }
    for stream in listener.incoming().flatten() {
        let site = Arc::clone(&site);
        // A browser opens several connections and leaves some of them silent.
        thread::spawn(move || site.answer(stream));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is served: one page, at an address that other users of the machine cannot guess.
struct Site {
    /// Names of other hosts that lead here are another site's doing.
    hosts: [String; 2],
    path: String,
    page: Vec<u8>,
}

impl Site {
    fn answer(&self, stream: TcpStream) {
        // A client that went away, or says nothing, is its own affair.
        let _ = self.try_answer(stream);
    }

    fn try_answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        let (status, page) = match Request::read(&stream)? {
            Some(request) if self.asked(&request) => ("200 OK", &*self.page),
            Some(_) => ("404 Not Found", &b"Not here.\n"[..]),
            None => ("400 Bad Request", &b"Not understood.\n"[..]),
        };
        let kind = if status.starts_with("200") {
            "html"
        } else {
            "plain"
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/{kind}; charset=utf-8\r\n\
             Content-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Connection: close\r\n\r\n",
            page.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(page)?;
        stream.shutdown(Shutdown::Write)
    }

    fn asked(&self, request: &Request) -> bool {
        request.method == "GET" && request.path == self.path && self.hosts.contains(&request.host)
    }
}

struct Request {
    method: String,
    path: String,
    host: String,
}

impl Request {
    /// More than a browser sends for one page.
    const LONGEST: u64 = 64 << 10;

    /// None if it is none.
    fn read(stream: &TcpStream) -> std::io::Result<Option<Self>> {
        let mut lines = BufReader::new(stream.take(Self::LONGEST)).lines();
        let Some(first) = lines.next().transpose()? else {
            return Ok(None);
        };
        let mut words = first.split(' ');
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            host: String::new(),
        };
        for line in lines {
            let line = line?;
            if line.is_empty() {
                return Ok(Some(request));
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("host")
            {
                request.host = value.trim().to_owned();
            }
        }
        Ok(None)
    }
}

/// 128 bits from the kernel, in hex.
fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random numbers from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The desktop's browser, if there is one: the address was said in any case. Command lines are seen by
/// everybody: the browser is given a page that only this user can read, and that leads there.
fn open(address: &str) {
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
