//! `cutrace view`: the HTML report in a browser, served on loopback to whoever knows its address, with the detail
//! that its page asks for (docs/VIEW-API.md).

mod board;
mod browser;
mod event;
mod flame;
mod indexed;
mod neighbour;
mod prepare;
mod search;
mod site;

use super::{http, input::or_newest};
use crate::{arguments::View, say::say};
use anyhow::{Context, Result, bail};
use board::Board;
use render::write_early;
use site::Site;
use std::{
    fs::{self, File},
    io::Read,
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// A trace of so many bytes is read at once: the page waits for it.
const SMALL: u64 = 1 << 20;
const FOR_SMALL: Duration = Duration::from_secs(10);
/// For what was kept of a larger one.
const FOR_LARGE: Duration = Duration::from_millis(400);

pub fn run(options: View) -> Result<ExitCode> {
    let paths = or_newest(options.traces)?;
    let size: u64 = { paths.iter() }
        .map(|path| fs::metadata(path).map_or(0, |found| found.len()))
        .sum();
    let mut waiting = Vec::new();
    write_early(&mut waiting, None)?;
    let board = Arc::new(Board::new(waiting));
    let making = {
        let (board, merge) = (Arc::clone(&board), options.merge);
        thread::spawn(move || {
            let made = prepare::prepare(paths, merge, &board);
            if let Err(why) = &made {
                board.failed(format!("{why:#}"));
            }
            made
        })
    };
    let grace = if size <= SMALL { FOR_SMALL } else { FOR_LARGE };
    let making = if board.settled(grace) {
        making
            .join()
            .unwrap_or_else(|_| bail!("the page could not be made"))?;
        None
    } else {
        Some(making)
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
        .with_context(|| format!("cannot serve on 127.0.0.1:{}", options.port))?;
    let port = listener.local_addr()?.port();
    let site = Site {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        path: format!("/{}/", secret()?),
        board,
        turn: Mutex::new(()),
    };
    let address = format!("http://127.0.0.1:{port}{}", site.path);
    say!("cutrace: the report is at {address} until Ctrl-C");
    if !browser::has_display() {
        browser::say_tunnel(port);
    }
    if options.open {
        browser::open(&address);
    }
    if let Some(making) = making {
        // The page says it as well.
        thread::spawn(move || {
            if let Ok(Err(why)) = making.join() {
                say!("cutrace: {why:#}");
            }
        });
    }
    http::serve(&listener, http::Limits::default(), move |request| {
        site.answer(request)
    });
    Ok(ExitCode::SUCCESS)
}

/// 128 bits from the kernel, in hex.
fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random numbers from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
