//! Strangers on the port: garbage, slow clients and a thousand connections at once. The traced program does not notice,
//! nothing is dropped, and afterwards the metrics are there.

use crate::{eventually, get, metrics::serve, value};
use std::{
    io::Write,
    net::TcpStream,
    time::{Duration, Instant},
};

#[test]
fn a_crowd_on_the_port_harms_nobody() {
    let Some(mut served) = serve(&[], &["3000", "2", "quiet"]) else {
        return;
    };
    let address = served.address.clone();
    eventually("launches", || {
        value(&served.metrics()?, "cutrace_kernel_launches_total", &[]).filter(|count| *count > 0.0)
    });
    let began = Instant::now();
    let mut held = Vec::new();
    // Silent ones, and some that send a byte now and then: held open all the while.
    for number in 0..1_000 {
        let Ok(mut stream) = TcpStream::connect(&address) else {
            continue;
        };
        let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
        match number % 4 {
            0 => {}
            1 => {
                let _ = stream.write_all(b"GET /met");
            }
            2 => {
                let _ = stream.write_all(&[0xff; 2_000]);
            }
            _ => {
                let _ = stream.write_all(b"GET / HTTP/9.9\r\n\r\n\0\0\0");
            }
        }
        held.push(stream);
    }
    assert!(held.len() > 500, "{}", held.len());
    // A request longer than any.
    if let Ok(mut stream) = TcpStream::connect(&address) {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = stream.write_all(b"GET /");
        for _ in 0..1_000 {
            if stream.write_all(&[b'x'; 1_024]).is_err() {
                break;
            }
        }
    }
    for (method, path, status) in [
        ("GET", "/metrics/../etc/passwd", "404"),
        ("GET", "/", "200"),
    ] {
        let answer = eventually("an answer", || {
            get(&address, path).filter(|(head, _)| !head.contains(" 503 "))
        });
        assert!(answer.0.contains(status), "{method} {path}: {}", answer.0);
    }
    // While they are there, or when their time is up, a scraper is served.
    let metrics = eventually("metrics beside them", || served.metrics());
    assert!(began.elapsed() < crate::PATIENCE);
    assert_eq!(
        value(&metrics, "cutrace_dropped_events_total", &[]),
        Some(0.0)
    );
    drop(held);
    // The program ran to its end, as it does.
    assert_eq!(served.child.wait().expect("an end").code(), Some(3));
}
