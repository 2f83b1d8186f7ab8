//! As much of HTTP as a page and a scrape need: one request a connection, answered within bounds of size and time.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// What strangers may take of us.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections that are served at once. A browser opens six.
    pub connections: usize,
    /// For the whole request to arrive.
    pub request_time: Duration,
    /// For the whole answer to be taken.
    pub answer_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32,
            request_time: Duration::from_secs(10),
            answer_time: Duration::from_secs(60),
        }
    }
}

/// More than a browser sends for one page.
const LONGEST_REQUEST: usize = 16 << 10;
/// Bytes that are written between two looks at the clock.
const PIECE: usize = 256 << 10;

pub struct Request {
    pub method: String,
    /// With what is behind the question mark.
    pub target: String,
    pub host: String,
    /// The kinds of answers that the client takes.
    pub accept: String,
}

pub struct Response {
    status: &'static str,
    kind: &'static str,
    body: Arc<Vec<u8>>,
}

impl Response {
    pub fn page(body: &Arc<Vec<u8>>) -> Self {
        Response {
            status: "200 OK",
            kind: "text/html",
            body: Arc::clone(body),
        }
    }

    pub fn json(body: String) -> Self {
        Response {
            status: "200 OK",
            kind: "application/json",
            body: Arc::new(body.into_bytes()),
        }
    }

    pub fn shared_json(body: &Arc<Vec<u8>>) -> Self {
        Response {
            body: Arc::clone(body),
            ..Response::json(String::new())
        }
    }

    /// A request that makes no sense, or asks for what is not there.
    pub fn error(status: &'static str, why: &str) -> Self {
        let body = serde_json::json!({ "error": why }).to_string();
        Response {
            status,
            ..Response::json(body)
        }
    }

    /// A text of this media type.
    pub fn text(kind: &'static str, body: Vec<u8>) -> Self {
        Response {
            status: "200 OK",
            kind,
            body: Arc::new(body),
        }
    }

    pub fn not_found() -> Self {
        Response::plain("404 Not Found", "Not here.\n")
    }

    fn plain(status: &'static str, words: &str) -> Self {
        Response {
            status,
            kind: "text/plain",
            body: Arc::new(words.as_bytes().to_vec()),
        }
    }
}

/// Answers requests until the process ends.
pub fn serve(
    listener: &TcpListener,
    limits: Limits,
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        let place = Place::take(&busy);
        let answer = Arc::clone(&answer);
        if place.number >= limits.connections {
            // In this thread, and briefly: a client that does not take it is none.
            let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
            let response = Response::plain("503 Service Unavailable", "Too many connections.\n");
            let _ = send(stream, &response, limits);
            continue;
        }
        // A client that went away, or says nothing, is its own affair; without a thread for it, it gets no answer.
        let _ = thread::Builder::new().spawn(move || {
            let _ = converse(stream, &*answer, limits);
            drop(place);
        });
    }
}

/// One of the connections that are open.
struct Place {
    busy: Arc<AtomicUsize>,
    /// How many there were before.
    number: usize,
}

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Self {
        Place {
            number: busy.fetch_add(1, Ordering::SeqCst),
            busy: Arc::clone(busy),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

fn converse(
    mut stream: TcpStream,
    answer: &dyn Fn(&Request) -> Response,
    limits: Limits,
) -> io::Result<()> {
    let response = match Request::read(&mut stream, limits)? {
        Some(request) => answer(&request),
        None => Response::plain("400 Bad Request", "Not understood.\n"),
    };
    send(stream, &response, limits)
}

fn send(mut stream: TcpStream, response: &Response, limits: Limits) -> io::Result<()> {
    let end = Instant::now() + limits.answer_time;
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
         Connection: close\r\n\r\n",
        response.status,
        response.kind,
        response.body.len()
    );
    for piece in [head.as_bytes()]
        .into_iter()
        .chain(response.body.chunks(PIECE))
    {
        stream.set_write_timeout(Some(left(end)?))?;
        stream.write_all(piece)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// What is left until then; an error if nothing is.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

impl Request {
    /// None if it is none. A client that sends a byte now and then does not get more time than others.
    fn read(stream: &mut TcpStream, limits: Limits) -> io::Result<Option<Self>> {
        let end = Instant::now() + limits.request_time;
        let mut head = Vec::new();
        let mut buffer = [0; 4_096];
        loop {
            stream.set_read_timeout(Some(left(end)?))?;
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            head.extend_from_slice(&buffer[..count]);
            if let Some(length) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                return Ok(std::str::from_utf8(&head[..length])
                    .ok()
                    .and_then(Request::parse));
            }
            if count == 0 || head.len() > LONGEST_REQUEST {
                return Ok(None);
            }
        }
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let header = |wanted: &'static str| {
            lines.clone().filter_map(move |line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim())
            })
        };
        let accept = header("accept").next().unwrap_or_default();
        let mut hosts = header("host");
        let host = hosts.next().unwrap_or_default();
        // Two of them are somebody's trick.
        if hosts.next().is_some() {
            return None;
        }
        Some(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            host: host.to_owned(),
            accept: accept.to_owned(),
        })
    }
}

/// A missing or invalid parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRequest(String);

impl BadRequest {
    pub fn new(why: &str) -> Self {
        BadRequest(why.to_owned())
    }
}

/// What is behind a question mark: names and values, decoded.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// None if it cannot be decoded.
    pub fn parse(query: &str) -> Option<Self> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        decoded.collect::<Option<_>>().map(Parameters)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// A number; None where it is missing, an error where it is none.
    pub fn number(&self, name: &str) -> Result<Option<u64>, BadRequest> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number = text.parse();
        number
            .map(Some)
            .map_err(|_| BadRequest(format!("{name}: not a whole number")))
    }

    pub fn needed(&self, name: &str) -> Result<u64, BadRequest> {
        self.number(name)?.ok_or_else(|| missing(name))
    }

    pub fn needed_text(&self, name: &str) -> Result<&str, BadRequest> {
        self.get(name).ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> BadRequest {
    BadRequest(format!("{name}: missing"))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let found = Parameters::parse("q=a%20b%2Bc+%C3%A9&from=12&flag").expect("sound");
        assert_eq!(found.get("q"), Some("a b+c é"));
        assert_eq!(found.number("from"), Ok(Some(12)));
        assert_eq!((found.get("flag"), found.get("to")), (Some(""), None));
        assert!(found.needed("to").is_err() && found.number("q").is_err());
        for bad in ["q=%", "q=%4", "q=%zz", "q=%ff"] {
            assert!(Parameters::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn requests_are_read_strictly() {
        let request = Request::parse("GET /x HTTP/1.1\r\nhOst:  a:1 \r\nB: c").expect("sound");
        assert_eq!((&*request.target, &*request.host), ("/x", "a:1"));
        for bad in [
            "",
            "GET",
            "GET /x",
            "GET /x HTTP/2",
            "GET /x HTTP/1.1 y",
            "GET /x HTTP/1.1\r\nHost: a\r\nHost: b",
        ] {
            assert!(Request::parse(bad).is_none(), "{bad}");
        }
    }
}
