//! `cutrace view`: the HTML report in a browser, served on loopback to whoever knows its address, with the detail
//! that its page asks for (docs/VIEW-API.md).

mod browser;
mod event;
mod indexed;
mod search;
mod site;

use super::{
    export::html_parts,
    http,
    input::{Input, or_newest},
};
use crate::{arguments::View, say::say};
use anyhow::{Context, Result, bail};
use indexed::Indexed;
use render::{Html, write_pages};
use site::Site;
use std::{
    fs::{self, File},
    io::Read,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

pub fn run(options: View) -> Result<ExitCode> {
    let paths = or_newest(options.traces)?;
    let (page, traces) = if options.merge || paths.len() == 1 && !is_file(&paths[0]) {
        (put_together(paths)?, Vec::new())
    } else {
        match &*paths {
            [one] => one_page(one)?,
            [before, after] => two_pages(before, after)?,
            _ => bail!("view compares two traces; to see more of them in one timeline add --merge"),
        }
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
        .with_context(|| format!("cannot serve on 127.0.0.1:{}", options.port))?;
    let port = listener.local_addr()?.port();
    let site = Site {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        path: format!("/{}/", secret()?),
        page: Arc::new(page),
        traces,
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
    http::serve(&listener, http::Limits::default(), move |request| {
        site.answer(request)
    });
    Ok(ExitCode::SUCCESS)
}

/// Whether it can be read again, here and there.
fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// Several traces as one, or one that can be read only once: the page is all there is.
fn put_together(paths: Vec<PathBuf>) -> Result<Vec<u8>> {
    let input = Input::open(paths, html_parts())?;
    let mut page = Vec::new();
    let mut html = Html::new(&mut page, input.meta());
    input.show(&mut html)?;
    drop(html);
    Ok(page)
}

type Served = (Vec<u8>, Vec<Indexed>);

fn one_page(path: &Path) -> Result<Served> {
    let mut read = indexed::read(path, html_parts())?;
    let contents = read.html.page(read.summary.as_ref())?;
    let traces = Vec::from_iter(read.indexed);
    let mut page = Vec::new();
    write_pages(&mut page, &[contents], None, traces.len())?;
    Ok((page, traces))
}

/// Two traces above each other, and what changed from one to the other.
fn two_pages(before: &Path, after: &Path) -> Result<Served> {
    let mut pages = Vec::new();
    let mut traces = Vec::new();
    for path in [before, after] {
        let mut read = indexed::read(path, html_parts())?;
        pages.push(read.html.page(read.summary.as_ref())?);
        traces.extend(read.indexed);
    }
    let diff = match (&pages[0].report, &pages[1].report) {
        (Some(before), Some(after)) => {
            Some(serde_json::to_value(analyse::diff::diff(before, after))?)
        }
        _ => None,
    };
    // A page asks about both or about neither.
    if traces.len() < 2 {
        traces.clear();
    }
    let mut page = Vec::new();
    write_pages(&mut page, &pages, diff.as_ref(), traces.len())?;
    Ok((page, traces))
}

/// 128 bits from the kernel, in hex.
fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random numbers from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
