//! Requests to a bucket: signed, repeated if the store or the way to it fails for a moment, and with errors that name
//! the remedy.

use super::sign::{Credentials, Signed, encoded, sha256};
use super::time::Time;
use super::xml;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::http::{HeaderMap, Request, Response, StatusCode};
use ureq::{Agent, Body};

/// How often a request is tried that fails for a moment, and the time before it is tried again, which doubles.
pub(super) const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Most bytes of an answer that is no data: a list of a thousand keys, each escaped.
pub(super) const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// Most bytes of uploads under way, or one part, if it is longer.
const MAX_SENDING_BYTES: usize = 64 << 20;
/// Most bytes that wait for the rest of their objects.
const MAX_HELD_BYTES: usize = 1 << 30;
/// Most characters of a store's own message.
const MAX_MESSAGE: usize = 200;
/// Most bytes of a region's name.
const MAX_REGION: usize = 40;

/// A bucket.
pub(super) struct Client {
    pub(super) agent: Agent,
    /// As `https://host:port`, followed by the bucket if that is not part of the host's name.
    pub(super) base: String,
    pub(super) host: String,
    /// The part of `base` behind the host.
    pub(super) path: String,
    pub(super) region: String,
    pub(super) credentials: Option<Credentials>,
    pub(super) room: Arc<Room>,
}

/// A request to it.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) method: &'static str,
    pub(super) key: &'a str,
    /// In the order of names.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Lower-case names.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
    /// The length of the answer, where that is known.
    pub(super) expected: Option<usize>,
}

/// The answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { method: "GET", key: "", query: &[], headers: &[], body: &[], expected: None }
    }
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Client {
    /// Sends a request, and again if that may help.
    pub(super) fn ask(&self, ask: &Ask<'_>) -> io::Result<Answer> {
        self.ask_times(ask, TRIES)
    }

    /// The same with another number of tries.
    pub(super) fn ask_times(&self, ask: &Ask<'_>, tries: u32) -> io::Result<Answer> {
        let mut wait = FIRST_WAIT;
        let mut left = tries;
        loop {
            left -= 1;
            match self.try_once(ask) {
                Err(error) if left > 0 && is_passing(&error) => {
                    thread::sleep(wait);
                    wait *= 2;
                }
                result => return result,
            }
        }
    }

    fn try_once(&self, ask: &Ask<'_>) -> io::Result<Answer> {
        let response = self.send(ask).map_err(|error| self.unreachable(&error))?;
        let (parts, body) = response.into_parts();
        let is_refused = !parts.status.is_success();
        let most = match ask.expected {
            Some(bytes) if !is_refused => bytes as u64 + 1,
            _ => MAX_ANSWER_BYTES,
        };
        let mut bytes = Vec::with_capacity(ask.expected.unwrap_or(0).saturating_add(1));
        let read = body.into_reader().take(most).read_to_end(&mut bytes);
        read.map_err(|error| io::Error::new(error.kind(), format!("the answer was cut: {error}")))?;
        let answer = Answer { headers: parts.headers, body: bytes };
        // Success is answered before the end of an operation that takes long.
        if is_refused || (ask.method == "POST" && answer.body.windows(7).any(|at| at == b"<Error>"))
        {
            return Err(refusal(parts.status, &answer));
        }
        if ask.expected.is_some_and(|bytes| bytes != answer.body.len()) {
            let text = format!("the store sent {} bytes of another number", answer.body.len());
            return Err(io::Error::new(ErrorKind::ConnectionAborted, text));
        }
        Ok(answer)
    }

    fn send(&self, ask: &Ask<'_>) -> Result<Response<Body>, ureq::Error> {
        let secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = Time::of_seconds(i64::try_from(secs).unwrap_or(i64::MAX));
        let key = if ask.key.is_empty() { String::new() } else { encoded(ask.key, "/") };
        let query: Vec<String> = ask
            .query
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value, "")))
            .collect();
        let query = query.join("&");
        let (body, date) = (sha256(ask.body), now.basic());
        let mut headers = ask.headers.to_vec();
        headers.extend([
            ("host", &*self.host),
            ("x-amz-content-sha256", &body),
            ("x-amz-date", &date),
        ]);
        if let Some(token) = self.credentials.as_ref().and_then(|who| who.token.as_deref()) {
            headers.push(("x-amz-security-token", token));
        }
        headers.sort_unstable();
        let mut request = Request::builder().method(ask.method).uri(format!(
            "{}/{key}{}{query}",
            self.base,
            if query.is_empty() { "" } else { "?" }
        ));
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        if let Some(who) = &self.credentials {
            let path = format!("{}/{key}", self.path);
            let signed = Signed {
                method: ask.method,
                path: &path,
                query: &query,
                headers: &headers,
                body: &body,
            };
            request =
                request.header("authorization", signed.authorization(who, &self.region, &now));
        }
        match ask.method {
            "PUT" | "POST" => self.agent.run(request.body(ask.body)?),
            _ => self.agent.run(request.body(())?),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> io::Error {
        let kind = match &error {
            ureq::Error::Io(error) => error.kind(),
            ureq::Error::Timeout(_) => ErrorKind::TimedOut,
            ureq::Error::HostNotFound => ErrorKind::HostUnreachable,
            ureq::Error::Protocol(_) | ureq::Error::ConnectionFailed => {
                ErrorKind::ConnectionAborted
            }
            _ => ErrorKind::InvalidInput,
        };
        let text = match error {
            ureq::Error::Io(error) => error.to_string(),
            ureq::Error::HostNotFound => "its name is not found".to_owned(),
            error => error.to_string(),
        };
        // Kinds with a meaning of their own are those of stores and of pipes.
        let kind = match kind {
            ErrorKind::NotFound | ErrorKind::StaleNetworkFileHandle | ErrorKind::BrokenPipe => {
                ErrorKind::ConnectionAborted
            }
            kind => kind,
        };
        let text =
            format!("no answer from {}: {text}; check AWS_ENDPOINT_URL and the network", self.host);
        io::Error::new(kind, text)
    }
}

/// Whether it may be gone if it is tried again.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TimedOut
            | ErrorKind::ResourceBusy
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::WouldBlock
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

/// The store has answered that it does not do that.
fn refusal(status: StatusCode, answer: &Answer) -> io::Error {
    let xml = answer.text();
    let code = xml::text(&xml, "Code").unwrap_or_default();
    let is_busy =
        matches!(&*code, "InternalError" | "RequestTimeout" | "ServiceUnavailable" | "SlowDown");
    let kind = match status.as_u16() {
        _ if is_busy => ErrorKind::ResourceBusy,
        404 => ErrorKind::NotFound,
        412 => ErrorKind::StaleNetworkFileHandle,
        401 | 403 => ErrorKind::PermissionDenied,
        408 | 429 | 500..=599 => ErrorKind::ResourceBusy,
        _ => ErrorKind::Other,
    };
    let region = answer.header("x-amz-bucket-region").map(str::to_owned);
    let region = region.or_else(|| xml::text(&xml, "Region"));
    let is_region = |text: &String| {
        text.len() <= MAX_REGION && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let region = region.filter(is_region);
    let why = match (&*code, status.as_u16(), region) {
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken", ..) => {
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN".to_owned()
        }
        ("RequestTimeTooSkewed", ..) => "set the clock of this host".to_owned(),
        ("NoSuchBucket", ..) => {
            "there is no such bucket: make it, or check its name and AWS_ENDPOINT_URL".to_owned()
        }
        (
            "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed",
            _,
            Some(region),
        )
        | (_, 301 | 307, Some(region)) => {
            format!("the bucket is in another region: AWS_REGION={region}")
        }
        ("NoSuchKey", ..) | ("", 404, _) => "there is no such object".to_owned(),
        ("AccessDenied", ..) | ("", 401 | 403, _) => {
            "the key may not do that, or is not known: check its rights, and the credentials"
                .to_owned()
        }
        _ => {
            let message = xml::text(&xml, "Message").unwrap_or_default();
            message
                .chars()
                .take(MAX_MESSAGE)
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect()
        }
    };
    let code = if code.is_empty() { String::new() } else { format!(" {code}") };
    let colon = if why.is_empty() { "" } else { "; " };
    let code: String = code.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();
    io::Error::new(kind, format!("the store answers {}{code}{colon}{why}", status.as_u16()))
}

/// Bytes that are being sent, and those that wait for the rest of their object: so much memory is used beside that of
/// the transfer.
#[derive(Debug, Default)]
pub(super) struct Room {
    used: Mutex<usize>,
    freed: Condvar,
    held: AtomicUsize,
}

/// Bytes of one object that wait for its rest.
#[derive(Debug)]
pub(super) struct Held(Arc<Room>, usize);

impl Held {
    /// Holds more.
    pub(super) fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.1 += bytes;
        if self.0.held.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_HELD_BYTES {
            let text = "more than 1 GiB of objects of which the rest has not come: let the sender send fewer at once";
            return Err(io::Error::new(ErrorKind::OutOfMemory, text));
        }
        Ok(())
    }

    /// Holds none any more.
    pub(super) fn clear(&mut self) {
        self.0.held.fetch_sub(std::mem::take(&mut self.1), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A part of it.
#[derive(Debug)]
pub(super) struct Taken(Arc<Room>, usize);

impl Room {
    /// Nothing yet.
    pub(super) fn held(self: &Arc<Self>) -> Held {
        Held(Arc::clone(self), 0)
    }

    /// Waits until there is room.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Taken {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && *used + bytes > MAX_SENDING_BYTES;
        let mut used = self.freed.wait_while(used, is_full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        Taken(Arc::clone(self), bytes)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.1;
        self.0.freed.notify_all();
    }
}
