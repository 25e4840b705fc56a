//! Any bytes to the endpoint of metrics: its answer is one of four, whole, and metrics are for `GET /metrics` alone.

#[path = "../../crates/linecard-app/src/attach/http.rs"]
#[expect(dead_code, reason = "sockets are not fuzzed")]
mod endpoint;

const TEXT: &str = "packets_total 1\n# EOF\n";
const BAD: &str = "400 Bad Request";

/// Input: the request. Where a head is whole does not depend on what follows it.
pub fn http(request: &[u8]) {
    let end = |mark: &[u8]| {
        request.windows(mark.len()).position(|bytes| bytes == mark).map(|at| at + mark.len())
    };
    let end = end(b"\r\n\r\n").into_iter().chain(end(b"\n\n")).min();
    for len in [0, end.unwrap_or(1) - 1, end.unwrap_or(0), request.len() / 2, request.len()] {
        let head = &request[..len.min(request.len())];
        let is_whole = end.is_some_and(|end| end <= head.len());
        assert_eq!(endpoint::is_whole(head), is_whole, "{head:02x?}");
        let answer = endpoint::response(head, is_whole, || TEXT.to_owned());
        check(&answer, if is_whole { status(head) } else { BAD });
    }
}

/// RFC 9112, section 3: method, target and version with one space between them.
fn status(head: &[u8]) -> &'static str {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return BAD };
    let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
    let [method, target, "HTTP/1.0" | "HTTP/1.1"] = words[..] else { return BAD };
    if method.is_empty()
        || method.contains(|c: char| !c.is_ascii_uppercase())
        || !target.starts_with('/')
    {
        return BAD;
    }
    match (method, target == "/metrics" || target.starts_with("/metrics?")) {
        ("GET", true) => "200 OK",
        (_, true) => "405 Method Not Allowed",
        _ => "404 Not Found",
    }
}

fn check(answer: &str, status: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let mut lines = head.split("\r\n");
    assert_eq!(lines.next(), Some(format!("HTTP/1.1 {status}").as_str()));
    let fields: Vec<(&str, &str)> =
        lines.map(|line| line.split_once(": ").expect("a field")).collect();
    let value = |name| fields.iter().find(|field| field.0 == name).map(|field| field.1);
    assert_eq!(value("Content-Length"), Some(body.len().to_string().as_str()));
    assert_eq!(value("Connection"), Some("close"));
    assert_eq!(value("Allow").is_some(), status.starts_with("405"));
    assert_eq!(body == TEXT, status == "200 OK");
}
