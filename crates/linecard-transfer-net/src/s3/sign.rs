//! Signatures of requests: AWS Signature Version 4, in the `Authorization` header.
//!
//! Source: "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk" of the API
//! reference of Amazon S3, of which the tests have the examples.

use super::time::Time;
use ring::{digest, hmac};
use std::fmt::Write;

/// The name and secret of the one who signs.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// A request, as it is signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    /// Encoded, in the order of names.
    pub(super) query: &'a str,
    /// Lower-case names in order, with their values.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body.
    pub(super) body: &'a str,
}

impl Signed<'_> {
    /// The `Authorization` header.
    pub(super) fn authorization(&self, who: &Credentials, region: &str, now: &Time) -> String {
        let scope = format!("{}/{region}/s3/aws4_request", now.date());
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut canonical = format!("{}\n{}\n{}\n", self.method, self.path, self.query);
        for (name, value) in self.headers {
            let _infallible = writeln!(canonical, "{name}:{}", value.trim());
        }
        let _infallible = write!(canonical, "\n{names}\n{}", self.body);
        let text =
            format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", now.basic(), sha256(canonical.as_bytes()));
        let mut key = format!("AWS4{}", who.secret).into_bytes();
        for part in [&now.date(), region, "s3", "aws4_request"] {
            key = hmac_sha256(&key, part).as_ref().to_vec();
        }
        let signature = hex(hmac_sha256(&key, &text).as_ref());
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            who.key
        )
    }
}

fn hmac_sha256(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// SHA-256, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// A path or a value of a query, with all bytes escaped but those that RFC 3986, section 2.3, calls unreserved, and
/// those of `kept`.
pub(super) fn encoded(text: &str, kept: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let is_kept = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_kept || kept.as_bytes().contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _infallible = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(method: &str, path: &str, query: &str, headers: &[(&str, &str)]) -> String {
        let who = Credentials {
            key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        // 24 May 2013, 00:00:00.
        let now = Time::of_seconds(1_369_353_600);
        let body = headers.iter().find(|(name, _)| *name == "x-amz-content-sha256").unwrap().1;
        let signed = Signed { method, path, query, headers, body };
        let all = signed.authorization(&who, "us-east-1", &now);
        assert!(all.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        ));
        all.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const DATE: (&str, &str) = ("x-amz-date", "20130524T000000Z");

    /// The examples of the source.
    #[test]
    fn signatures_are_those_of_the_reference() {
        assert_eq!(sha256(b""), EMPTY);
        let empty = ("x-amz-content-sha256", EMPTY);
        assert_eq!(
            signature("GET", "/test.txt", "", &[HOST, ("range", "bytes=0-9"), empty, DATE]),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let body = sha256(b"Welcome to Amazon S3.");
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            HOST,
            ("x-amz-content-sha256", &body),
            DATE,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        assert_eq!(
            signature("PUT", &encoded("/test$file.text", "/"), "", &put),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        assert_eq!(
            signature("GET", "/", "max-keys=2&prefix=J", &[HOST, empty, DATE]),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn what_is_reserved_is_escaped() {
        assert_eq!(encoded("/a b+c~ä%", "/"), "/a%20b%2Bc~%C3%A4%25");
        assert_eq!(encoded("a/b", ""), "a%2Fb");
    }
}
