//! One HTTP request to a collector: plain, short, and given up after a time.

use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

/// For connecting, sending and the answer together.
const TIME: Duration = Duration::from_secs(3);
/// Of an answer, no more is read.
const LONGEST: usize = 4 << 10;

/// Where requests go: `http://HOST[:PORT][/PATH]`.
pub struct Address {
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// Without a path, the one for spans.
    pub fn parse(url: &str) -> Result<Self> {
        const USUAL: u16 = 4318;
        let rest = url
            .strip_prefix("http://")
            .context("the collector's address begins with http://")?;
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) if !path.is_empty() => (host, format!("/{path}")),
            Some((host, _)) => (host, "/v1/traces".to_owned()),
            None => (rest, "/v1/traces".to_owned()),
        };
        // An IPv6 address has colons of its own, in brackets.
        let (host, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (
                name,
                port.parse()
                    .with_context(|| format!("{port:?} is no port"))?,
            ),
            _ => (host, USUAL),
        };
        let strange = |text: &str| text.chars().any(|it| it.is_whitespace() || it.is_control());
        if host.is_empty() || strange(host) || strange(&path) {
            bail!("{url:?} is no address");
        }
        Ok(Address {
            host: host.to_owned(),
            port,
            path,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}:{}{}", self.host, self.port, self.path)
    }

    /// Sends it; an error unless the answer is one of success.
    pub fn post(&self, kind: &str, body: &[u8]) -> Result<()> {
        let end = Instant::now() + TIME;
        let left = || {
            let left = end.saturating_duration_since(Instant::now());
            (!left.is_zero())
                .then_some(left)
                .context("the collector takes too long")
        };
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let address = (name, self.port).to_socket_addrs()?.next();
        let address = address.with_context(|| format!("{} has no address", self.host))?;
        let mut stream = TcpStream::connect_timeout(&address, left()?)?;
        stream.set_write_timeout(Some(left()?))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: cutrace/{}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.host,
            self.port,
            version::VERSION,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        while !answer.windows(2).any(|bytes| bytes == b"\r\n") && answer.len() < LONGEST {
            stream.set_read_timeout(Some(left()?))?;
            match stream.read(&mut buffer)? {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        let status = line.split(' ').nth(1).unwrap_or_default();
        if !(line.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2')) {
            bail!("the collector answered {line:?}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    #[test]
    fn addresses_have_the_usual_port_and_path() {
        let url = |text| Address::parse(text).expect("sound").url();
        assert_eq!(
            url("http://127.0.0.1:4318"),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(url("http://collector"), "http://collector:4318/v1/traces");
        assert_eq!(url("http://a:1/b/c"), "http://a:1/b/c");
        assert_eq!(url("http://[::1]/"), "http://[::1]:4318/v1/traces");
        for wrong in [
            "a:1",
            "http://",
            "http://a:b",
            "http://a/b c",
            "http://a\r\nX:1",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_success_is_success() {
        for (answer, is_good) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 503 Busy\r\n\r\n", false),
            ("garbage", false),
            ("", false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = format!("http://{}", listener.local_addr().expect("bound"));
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut buffer = [0; 1_024];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(answer.as_bytes());
            });
            let sent = Address::parse(&address)
                .expect("sound")
                .post("x/y", b"body");
            assert_eq!(sent.is_ok(), is_good, "{answer:?}: {sent:?}");
            server.join().expect("served");
        }
    }
}
