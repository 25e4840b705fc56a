//! Errors of object stores: one line with the remedy.

use object_store::Error as StoreError;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Error as PathError;
use std::error::Error;
use std::io::{self, ErrorKind};
use tokio::task::JoinError;

/// Text of an answer beyond its bound.
pub(super) const TOO_LONG: &str = "an answer of more than 16 MiB";
/// Most characters of a store's own message.
const MAX_MESSAGE: usize = 200;
/// Most bytes of a region's name.
const MAX_REGION: usize = 40;

/// The result of a task.
pub(super) fn ended<T>(result: Result<io::Result<T>, JoinError>) -> io::Result<T> {
    result.unwrap_or_else(|_| Err(io::Error::other("a bug in linecard: a task has panicked")))
}

/// An error of a store, as [`crate::file::Bucket`] wants it.
#[expect(clippy::needless_pass_by_value, reason = "as map_err passes it")]
pub(super) fn failed(error: StoreError) -> io::Error {
    let unreachable = causes(&error).find_map(|cause| cause.downcast_ref::<HttpError>());
    if let Some(unreachable) = unreachable {
        return no_answer(unreachable, &error.to_string());
    }
    if let StoreError::InvalidPath { source } = &error {
        let key = match source {
            PathError::EmptySegment { path } | PathError::BadSegment { path, .. } => path,
            _ => &source.to_string(),
        };
        let key: String = key.chars().take(MAX_MESSAGE).collect();
        let text = format!(
            "a key cannot be the name of a file, as it has an empty part, one that is . or .., or a control character: \
             {key:?}; name a prefix without it"
        );
        return io::Error::new(ErrorKind::InvalidData, text);
    }
    refusal(&error)
}

/// None of the places that credentials come from has some.
#[expect(clippy::needless_pass_by_value, reason = "as map_err passes it")]
pub(super) fn no_credentials(error: StoreError) -> io::Error {
    let root = causes(&error).last().map(ToString::to_string).unwrap_or_default();
    let text = format!(
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if there is one; for a \
         public bucket AWS_SKIP_SIGNATURE=true; this host has no role of its own: {}",
        printable(root)
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// An error and those that it is caused by.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The store was not reached, or has not answered.
fn no_answer(error: &HttpError, whole: &str) -> io::Error {
    // The text has the whole address of the request, whose length has no bound.
    let from = whole.find("http://").or_else(|| whole.find("https://"));
    let url = from.map_or("the store", |from| &whole[from..]);
    let end =
        url.match_indices(['/', ' ', '?']).map(|(at, _)| at).find(|at| *at > "https://".len());
    let place = printable(&url[..end.unwrap_or(url.len())]);
    let root = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let (kind, text) = match error.kind() {
        HttpErrorKind::Timeout => (ErrorKind::TimedOut, "it took too long"),
        _ => (ErrorKind::ConnectionAborted, &*root),
    };
    let text = printable(text);
    let remedy = match root.contains("certificate") {
        true => "check the certificate authorities of this host, or SSL_CERT_FILE",
        false => "check AWS_ENDPOINT_URL and the network",
    };
    io::Error::new(kind, format!("no answer from {place}: {text}; {remedy}"))
}

/// The store has answered that it does not do that. The answer is in the text only: its type is not public.
fn refusal(error: &StoreError) -> io::Error {
    let text = error.to_string();
    let status = text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
    let code = element(&text, "Code").unwrap_or_default();
    let (kind, status) = match error {
        StoreError::NotFound { .. } => (ErrorKind::NotFound, Some(404)),
        StoreError::Precondition { .. } => (ErrorKind::StaleNetworkFileHandle, Some(412)),
        StoreError::PermissionDenied { .. } => (ErrorKind::PermissionDenied, Some(403)),
        StoreError::Unauthenticated { .. } => (ErrorKind::PermissionDenied, Some(401)),
        _ => (ErrorKind::Other, status),
    };
    let is_region = |region: &&str| {
        region.len() <= MAX_REGION
            && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let region = element(&text, "Region").filter(is_region);
    let why = match (code, status) {
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken", _) => {
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN".to_owned()
        }
        ("RequestTimeTooSkewed", _) => "set the clock of this host".to_owned(),
        ("NoSuchBucket", _) => {
            "there is no such bucket: make it, or check its name and AWS_ENDPOINT_URL".to_owned()
        }
        ("PermanentRedirect" | "AuthorizationHeaderMalformed", _) | (_, Some(301 | 307)) => {
            let region = region.unwrap_or("REGION");
            format!("the bucket is in another region: AWS_REGION={region}")
        }
        ("NoSuchKey", _) | ("", Some(404)) => "there is no such object".to_owned(),
        ("AccessDenied", _) | ("", Some(401 | 403)) => {
            "the key may not do that, or is not known: check its rights, and the credentials"
                .to_owned()
        }
        ("", None) if text.contains("redirect without LOCATION") => {
            "the bucket is in another region: set AWS_REGION".to_owned()
        }
        ("", None) => {
            let root = causes(error).last().map_or(text.clone(), |error| error.to_string());
            let root = printable(root);
            let text = format!("the answer is not that of a store: {root}; check AWS_ENDPOINT_URL");
            return io::Error::new(kind, text);
        }
        _ => printable(element(&text, "Message").unwrap_or_default()),
    };
    let mut line = "the store answers".to_owned();
    if let Some(status) = status {
        line.push_str(&format!(" {status}"));
    }
    if !code.is_empty() {
        line.push_str(&format!(" {}", printable(code)));
    }
    if !why.is_empty() {
        line.push_str(&format!("; {why}"));
    }
    io::Error::new(kind, line)
}

/// The text of an element of the store's answer.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

fn printable(text: impl AsRef<str>) -> String {
    let one = |c: char| if c.is_control() { ' ' } else { c };
    text.as_ref().chars().take(MAX_MESSAGE).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: &str, body: &str) -> (ErrorKind, String) {
        let path = "x".to_owned();
        let source =
            format!("Error performing GET http://h/ in 3ms - Server returned non-2xx status code: {status}: {body}").into();
        let error = match &status[..3] {
            "401" => StoreError::Unauthenticated { path, source },
            "403" => StoreError::PermissionDenied { path, source },
            "404" => StoreError::NotFound { path, source },
            "412" => StoreError::Precondition { path, source },
            _ => StoreError::Generic { store: "S3", source },
        };
        let error = failed(error);
        (error.kind(), error.to_string())
    }

    #[test]
    fn refusals_name_the_remedy() {
        let body = |code: &str| {
            format!("<Error><Code>{code}</Code><Message>m\n{}</Message></Error>", "y".repeat(500))
        };
        for (status, code, kind, part) in [
            (
                "403 Forbidden",
                "SignatureDoesNotMatch",
                ErrorKind::PermissionDenied,
                "AWS_SECRET_ACCESS_KEY",
            ),
            ("403 Forbidden", "RequestTimeTooSkewed", ErrorKind::PermissionDenied, "set the clock"),
            (
                "404 Not Found",
                "NoSuchBucket",
                ErrorKind::NotFound,
                "404 NoSuchBucket; there is no such bucket",
            ),
            ("404 Not Found", "NoSuchKey", ErrorKind::NotFound, "no such object"),
            (
                "412 Precondition Failed",
                "PreconditionFailed",
                ErrorKind::StaleNetworkFileHandle,
                "412",
            ),
            ("503 Slow Down", "SlowDown", ErrorKind::Other, "503 SlowDown; m "),
        ] {
            let (is, line) = refused(status, &body(code));
            assert!(is == kind && line.contains(part), "{is:?} {line}");
            assert!(line.len() < 400 && !line.contains('\n'), "{line}");
        }
        // Answers to HEAD have no text.
        assert!(refused("403 Forbidden", "").1.contains("check its rights"));
        let region = "<Error><Code>PermanentRedirect</Code><Region>eu-west-3</Region></Error>";
        assert!(refused("301 Moved", region).1.contains("AWS_REGION=eu-west-3"));
        // A region that is none is not shown.
        let region = "<Error><Code>PermanentRedirect</Code><Region>a;rm b</Region></Error>";
        assert!(refused("301 Moved", region).1.ends_with("AWS_REGION=REGION"));
    }

    #[test]
    fn a_store_that_does_not_answer_is_told_from_one_that_refuses() {
        let source = io::Error::new(ErrorKind::ConnectionRefused, "Connection refused");
        let source = Box::new(HttpError::new(HttpErrorKind::Connect, source));
        let error = failed(StoreError::Generic { store: "S3", source });
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        let line =
            "no answer from the store: Connection refused; check AWS_ENDPOINT_URL and the network";
        assert_eq!(error.to_string(), line);
    }
}
