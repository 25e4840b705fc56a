//! Object stores with the interface of Amazon S3, as Ceph and others have it, too.
//!
//! Requests are signed here ([`Settings`]), and carried by `ureq`, which blocks: a few threads wait for parts of objects
//! that are on their way. Bounds: 32 MiB read ahead, 64 MiB of parts that are being sent, or one, if it is longer.

mod client;
mod read;
mod settings;
mod sign;
mod time;
mod upload;
mod xml;

pub use settings::{S3Error, Settings};

use crate::file::{Bucket, Stamp, Stored, Upload};
use client::{Ask, Client, MAX_ANSWER_BYTES, Room};
use rustls_native_certs::load_native_certs;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;
use upload::MODIFIED;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// How long to wait for a connection, and for the next bytes of one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Keys of one answer.
const PAGE: &str = "1000";
/// Most bytes of an object.
const MAX_OBJECT_BYTES: u64 = 5 << 40;
/// The first answer tells an error soon.
const CHECK_TRIES: u32 = 2;

/// A bucket with a prefix.
pub struct S3 {
    client: Arc<Client>,
    url: String,
    /// Without a slash at its end.
    prefix: String,
    /// The user has written a slash at the end: no object has this key.
    is_below: bool,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3({})", self.url)
    }
}

impl S3 {
    /// The place of a URL, as `s3://bucket/prefix`. Nothing is asked for yet.
    ///
    /// # Errors
    ///
    /// [`S3Error`].
    pub fn new(url: &str, settings: &Settings) -> Result<Self, S3Error> {
        let rest = url.strip_prefix("s3://").ok_or(S3Error::Url)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_of_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_of_bucket) {
            return Err(S3Error::Url);
        }
        let prefix = key.strip_suffix('/').unwrap_or(key);
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        if !key.is_empty() && !prefix.split('/').all(is_part) {
            return Err(S3Error::Prefix);
        }
        let (origin, path) = settings.place(bucket);
        let host = origin.split_once("://").map_or("", |(_, host)| host).to_owned();
        let client = Client {
            agent: agent(origin.starts_with("https:"))?,
            base: format!("{origin}{path}"),
            host,
            path,
            region: settings.region.clone(),
            credentials: settings.credentials.clone(),
            room: Arc::new(Room::default()),
        };
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self {
            client: Arc::new(client),
            url: format!("s3://{bucket}{slash}{prefix}"),
            prefix: prefix.to_owned(),
            is_below: key.ends_with('/') || key.is_empty(),
        })
    }

    fn key(&self, name: &str) -> String {
        match (&*self.prefix, name) {
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        }
    }

    /// A page of objects below a prefix, and where the next one begins.
    fn page(
        &self,
        (prefix, max, tries): (&str, &str, u32),
        from: Option<&str>,
    ) -> io::Result<(Vec<Stored>, Option<String>)> {
        let mut query: Vec<_> = from.iter().map(|from| ("continuation-token", *from)).collect();
        let more =
            [("encoding-type", "url"), ("list-type", "2"), ("max-keys", max), ("prefix", prefix)];
        query.extend(more);
        let ask = Ask { query: &query, ..Ask::default() };
        let answer = self.client.ask_times(&ask, tries)?;
        if answer.body.len() as u64 >= MAX_ANSWER_BYTES {
            return Err(io::Error::other("a list of the store is too long to be read"));
        }
        let xml = answer.text();
        let is_encoded = xml::text(&xml, "EncodingType").is_some_and(|kind| kind == "url");
        let object = |one: &str| {
            let key = xml::text(one, "Key")?;
            Some(Stored {
                name: if is_encoded { xml::decoded(&key)? } else { key },
                size: xml::text(one, "Size")?.parse().ok()?,
                modified: xml::text(one, "LastModified").and_then(|text| time::of_list(&text)),
                tag: xml::text(one, "ETag").unwrap_or_default(),
            })
        };
        let objects: Option<Vec<_>> = xml::all(&xml, "Contents").map(object).collect();
        let strange = || io::Error::new(ErrorKind::InvalidData, "the store's list cannot be read");
        let has_more = xml::text(&xml, "IsTruncated").is_some_and(|text| text == "true");
        let next = xml::text(&xml, "NextContinuationToken").filter(|_| has_more);
        Ok((objects.ok_or_else(strange)?, next))
    }
}

/// The HTTP client.
fn agent(is_encrypted: bool) -> Result<Agent, S3Error> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // A signature is for one host.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("linecard/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(READ_TIMEOUT))
        .timeout_per_read(Some(READ_TIMEOUT))
        .timeout_per_write(Some(READ_TIMEOUT))
        .max_idle_connections(32)
        .max_idle_connections_per_host(32);
    if is_encrypted {
        let authorities = load_native_certs().certs;
        if authorities.is_empty() {
            return Err(S3Error::NoAuthorities);
        }
        let certificate = |der: &_| Certificate::from_der(der).to_owned();
        let roots: Vec<_> = authorities.iter().map(|der| certificate(&**der)).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::from(roots));
        config = config.tls_config(tls.build());
    }
    Ok(config.build().into())
}

impl Bucket for S3 {
    fn url(&self) -> &str {
        &self.url
    }

    fn check(&self) -> io::Result<()> {
        self.page((&self.prefix, "1", CHECK_TRIES), None).map(drop)
    }

    fn list(&self, limit: usize) -> io::Result<Vec<Stored>> {
        let tries = CHECK_TRIES;
        if !self.is_below {
            // Of all keys that begin so, it is the first.
            let (mut first, _) = self.page((&self.prefix, "1", tries), None)?;
            first.retain(|stored| stored.name == self.prefix);
            if let Some(stored) = first.pop() {
                return Ok(vec![Stored { name: String::new(), ..stored }]);
            }
        }
        let below = self.key("");
        let below = if below.is_empty() { below } else { format!("{below}/") };
        let (mut all, mut from) = (Vec::new(), None);
        loop {
            let (page, next) = self.page((&below, PAGE, client::TRIES), from.as_deref())?;
            let name = |stored: Stored| {
                let name = stored.name.strip_prefix(&below)?.to_owned();
                // The folder itself, as some programs mark it.
                (!name.is_empty()).then_some(Stored { name, ..stored })
            };
            let count = page.len();
            all.extend(page.into_iter().filter_map(name));
            if next.is_none() || all.len() > limit {
                all.truncate(limit + 1);
                return Ok(all);
            }
            if count == 0 || next == from {
                let strange = "the store's list does not go on";
                return Err(io::Error::new(ErrorKind::InvalidData, strange));
            }
            from = next;
        }
    }

    fn look(&self, name: &str) -> io::Result<Option<Stored>> {
        let key = self.key(name);
        let answer = match self.client.ask(&Ask { method: "HEAD", key: &key, ..Ask::default() }) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            answer => answer?,
        };
        let size = answer.header("content-length").and_then(|size| size.parse().ok());
        Ok(Some(Stored {
            name: name.to_owned(),
            size: size.ok_or_else(|| io::Error::other("the store does not say how long it is"))?,
            modified: answer.header(MODIFIED).and_then(time::of_metadata),
            tag: answer.header("etag").unwrap_or_default().to_owned(),
        }))
    }

    fn read(&self, stored: &Stored, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let object = read::Object {
            client: Arc::clone(&self.client),
            key: self.key(&stored.name),
            tag: stored.tag.clone(),
        };
        Ok(Box::new(read::Reader::begin(object, stored.size, from)?))
    }

    fn create(
        &self,
        name: &str,
        size: Option<u64>,
        modified: Stamp,
    ) -> io::Result<Box<dyn Upload>> {
        if size.is_some_and(|size| size > MAX_OBJECT_BYTES) {
            let text = "it is larger than the 5 TiB that an object may have";
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        let about = (self.key(name), time::to_metadata(modified));
        Ok(Box::new(upload::Upload::new(Arc::clone(&self.client), about, size)))
    }
}
