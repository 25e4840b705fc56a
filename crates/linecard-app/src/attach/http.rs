//! The part of HTTP that a scraper needs: `GET /metrics`, one connection at a time.
//!
//! A client can occupy it for at most [`READ`] and [`WRITE`] together, and no request grows beyond [`LONGEST`] bytes.
//! Other clients wait meanwhile in the system's queue of 128 connections, or are refused by it.
//!
//! Not supported: TLS, authentication, persistent connections, compression.

use linecard_io::rights;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest request.
const LONGEST: usize = 8 << 10;
/// Time for all of a request.
const READ: Duration = Duration::from_secs(1);
/// Time for all of an answer.
const WRITE: Duration = Duration::from_secs(1);
/// Bytes behind a request that are taken before the connection is closed: closed over unread ones, it
/// could lose the answer.
const LEFT_OVER: usize = 64 << 10;
/// After a failure to accept, as without free descriptors: not again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// The type of `OpenMetrics` text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where scrapers may connect to.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the address; port 0 is one that is free.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with what `text` gives, on a thread of its own, as long as the process lives. The thread can open no
    /// files, where the kernel has Landlock.
    pub(crate) fn serve(self, text: impl Fn() -> String + Send + 'static) -> io::Result<()> {
        let (ready, confined) = mpsc::channel();
        let run = move || {
            let result = rights::confine(&[]);
            let may_serve = result.is_ok();
            if ready.send(result).is_err() || !may_serve {
                return;
            }
            for stream in self.listener.incoming() {
                match stream {
                    // A client's failures are its own.
                    Ok(stream) => drop(answer(&stream, &text)),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        thread::Builder::new().name("metrics".into()).spawn(run)?;
        let confined = confined.recv().map_err(io::Error::other)?;
        confined.map(drop).map_err(io::Error::other)
    }
}

/// Status of the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Good,
    BadRequest,
    NotFound,
    NotAllowed,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Good => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
        }
    }
}

fn answer(stream: &TcpStream, text: impl Fn() -> String) -> io::Result<()> {
    let (until, mut request) = (Instant::now() + READ, Vec::new());
    let is_whole = read(stream, &mut request, until)?;
    write(stream, &response(&request, is_whole, text))?;
    stream.shutdown(Shutdown::Write)?;
    discard(stream, until)
}

/// The response to a request; one whose head does not end is a bad one.
pub(crate) fn response(request: &[u8], is_whole: bool, text: impl Fn() -> String) -> String {
    let status = if is_whole { judge(request) } else { Status::BadRequest };
    let (kind, body) = match status {
        Status::Good => (OPEN_METRICS, text()),
        other => ("text/plain; charset=utf-8", format!("{}: GET /metrics\n", other.line())),
    };
    let allow = if status == Status::NotAllowed { "Allow: GET\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        status.line(),
        body.len(),
    );
    [head, body].concat()
}

/// Reads until the end of the head; false when there is none within the bounds.
fn read(stream: &TcpStream, request: &mut Vec<u8>, until: Instant) -> io::Result<bool> {
    let mut piece = [0; 1_024];
    while !is_whole(request) {
        if request.len() >= LONGEST {
            return Ok(false);
        }
        let Some(left) = left(until) else { return Ok(false) };
        stream.set_read_timeout(Some(left))?;
        match (&*stream).read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(len) => request.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether the empty line that ends a head has arrived.
pub(crate) fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n")
}

fn write(stream: &TcpStream, text: &str) -> io::Result<()> {
    let (until, mut bytes) = (Instant::now() + WRITE, text.as_bytes());
    while !bytes.is_empty() {
        let left = left(until).ok_or(ErrorKind::TimedOut)?;
        stream.set_write_timeout(Some(left))?;
        match (&*stream).write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the rest of the request, within the limits of a request.
fn discard(stream: &TcpStream, until: Instant) -> io::Result<()> {
    let (mut piece, mut taken) = ([0; 4_096], 0);
    while taken < LEFT_OVER {
        let Some(left) = left(until) else { break };
        stream.set_read_timeout(Some(left))?;
        match (&*stream).read(&mut piece)? {
            0 => break,
            len => taken += len,
        }
    }
    Ok(())
}

/// Time left, if any is: a timeout of zero would be none.
fn left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// By the first line; what a scraper says of itself changes nothing.
fn judge(request: &[u8]) -> Status {
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Status::BadRequest };
    let mut words = line.trim_end_matches('\r').split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Status::BadRequest;
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method || !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !target.starts_with('/') {
        return Status::BadRequest;
    }
    let path = target.split('?').next();
    match (method, path) {
        ("GET", Some("/metrics")) => Status::Good,
        (_, Some("/metrics")) => Status::NotAllowed,
        _ => Status::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn only_one_thing_is_served() {
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", Status::Good),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Status::Good),
            ("GET /metrics HTTP/1.1\n\n", Status::Good),
            ("GET / HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET /../metrics HTTP/1.1\r\n\r\n", Status::NotFound),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Status::NotAllowed),
            ("POST /metrics HTTP/1.1\r\n\r\n", Status::NotAllowed),
            ("get /metrics HTTP/1.1\r\n\r\n", Status::BadRequest),
            ("GET /metrics HTTP/2\r\n\r\n", Status::BadRequest),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Status::BadRequest),
            ("GET metrics HTTP/1.1\r\n\r\n", Status::BadRequest),
            ("GET /metrics\r\n\r\n", Status::BadRequest),
            ("\r\n\r\n", Status::BadRequest),
        ] {
            assert_eq!(judge(request.as_bytes()), status, "{request:?}");
        }
        assert_eq!(judge(b"GET /\xFF HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(judge(b""), Status::BadRequest);
    }

    /// Sends these bytes and gives the answer.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // The server closes the connection if the request is too long.
        let _taken = stream.write_all(request);
        let mut answer = Vec::new();
        let _closed = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn hostile_clients_do_not_keep_it() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        let address = listener.address();
        // Long for the first, which takes none of it; one that reads may be slow on a busy machine.
        let asked = AtomicBool::new(false);
        let text = move || {
            "# EOF\n".repeat(if asked.swap(true, Ordering::Relaxed) { 200 } else { 200_000 })
        };
        listener.serve(text).expect("a thread");
        let begun = Instant::now();
        // One that says nothing, one that says a little, one that goes away, one that reads nothing.
        let silent = TcpStream::connect(address).expect("it listens");
        let mut slow = TcpStream::connect(address).expect("it listens");
        slow.write_all(b"GET /met").expect("it reads");
        drop(TcpStream::connect(address).expect("it listens"));
        let mut deaf = TcpStream::connect(address).expect("it listens");
        deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
        assert!(ask(address, &[0xFF; 100]).starts_with("HTTP/1.1 400"));
        assert!(ask(address, &[b'A'; 200_000]).len() < 1_000);
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("# EOF\n"));
        assert!(answer.contains("Content-Length: 1200\r\n"));
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        drop((silent, slow, deaf));
    }

    /// Promise (Live interfaces): The thread that answers scrapers of metrics, of `attach` and `jitter watch`, can open no
    /// files, nor connect by TCP, where the kernel has Landlock.
    #[test]
    fn the_thread_that_answers_opens_no_files() {
        let is_confined = thread::spawn(|| rights::confine(&[])).join().expect("no panic");
        if !is_confined.expect("the kernel says whether it can") {
            linecard_testkit::skip("Landlock", "the kernel has none");
            return;
        }
        let at = tempfile::tempdir().expect("a folder");
        let file = at.path().join("a");
        fs::write(&file, "secret").expect("it is there");
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        let address = listener.address();
        let text = move || {
            let read = fs::read(&file).map(drop).map_err(|error| error.kind());
            let connected = TcpStream::connect(address).map(drop).map_err(|error| error.kind());
            format!("{read:?} {connected:?}\n")
        };
        listener.serve(text).expect("a thread");
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        let denied = "\r\n\r\nErr(PermissionDenied) Err(PermissionDenied)\n";
        assert!(answer.ends_with(denied), "{answer}");
    }

    #[test]
    fn an_address_in_use_is_refused() {
        let first = Listener::bind(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        assert!(Listener::bind(first.address()).is_err());
    }
}
