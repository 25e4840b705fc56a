//! Object stores with the interface of Amazon S3, as Ceph and others have it, too.
//!
//! The crate `object_store` asks them. It is asynchronous: a [`Shared`] has a runtime of its own with two threads, on
//! which the calls of [`Bucket`] wait. Bounds: 32 MiB read ahead of an object, and those of [`room`].

mod error;
#[cfg(test)]
mod hostile;
mod http;
mod mtime;
mod read;
mod room;
mod settings;
mod upload;

pub use settings::{S3Error, Settings};

use crate::file::{Bucket, Stamp, Stored, Upload};
use error::{causes, failed};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Patience;
use object_store::Error as StoreError;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Attribute, Attributes, BackoffConfig, GetOptions};
use object_store::{ObjectMeta, ObjectStore, RetryConfig};
use room::{LOOK, Room, over_error};
use std::borrow::Cow;
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long to wait for the next bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request may take that stores something: a part of 8 MiB at 0.6 Mbit/s, or, with seven others, at 4.5 Mbit/s.
const WRITE_TIMEOUT: Duration = Duration::from_mins(2);
/// A request that fails for a moment is repeated that often, and not after that time.
const RETRIES: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
/// Times between them: they double, and differ at random.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The first answer tells an error soon.
const CHECK_RETRIES: usize = 1;
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// It may take several requests, where the first pages of a list have no key.
const WHOLE_CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a list may give no further key.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);
/// Most bytes of an object.
const MAX_OBJECT_BYTES: u64 = 5 << 40;
/// Empty objects that are asked for at the same time, whether they are folders.
const MAX_ASKS: usize = 16;

/// A bucket with a prefix.
pub struct S3 {
    shared: Arc<Shared>,
    url: String,
    /// Without a slash at its end.
    prefix: String,
    /// The user has written a slash at the end: no object has this key.
    is_below: bool,
}

/// Shared by requests that are on their way.
struct Shared {
    /// The store, with little patience, to find out whether it is there.
    quick: Arc<dyn ObjectStore>,
    /// The same, for data.
    reading: Arc<dyn ObjectStore>,
    writing: Arc<dyn ObjectStore>,
    /// None where requests are not signed.
    signer: Option<AmazonS3>,
    runtime: Runtime,
    room: Arc<Room>,
    /// It has not answered when parts were to be removed.
    is_lost: AtomicBool,
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
        let (bucket, ..) = parts_of(url)?;
        // Where a provider of cryptography was installed before, it is kept.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let builder = settings.builder.clone().with_bucket_name(bucket);
        let build = |builder: AmazonS3Builder, patience: Patience, retries| {
            let backoff =
                BackoffConfig { init_backoff: FIRST_WAIT, max_backoff: LONGEST_WAIT, base: 2.0 };
            let retry = RetryConfig { backoff, max_retries: retries, retry_timeout: RETRY_TIMEOUT };
            let built = builder.with_http_connector(patience).with_retry(retry).build();
            built.map_err(|error| {
                let is_client = |cause: &(dyn Error + 'static)| cause.is::<reqwest::Error>();
                let root = causes(&error).last().map(ToString::to_string).unwrap_or_default();
                match causes(&error).any(is_client) {
                    true => S3Error::System(format!(
                        "{root}: install ca-certificates, or set SSL_CERT_FILE"
                    )),
                    false => S3Error::Other(root),
                }
            })
        };
        let quick = build(builder.clone(), Patience::Silence(CHECK_TIMEOUT), CHECK_RETRIES)?;
        let builder = builder.with_credentials(Arc::clone(quick.credentials()));
        let reading = build(builder.clone(), Patience::Silence(READ_TIMEOUT), RETRIES)?;
        let writing = build(builder, Patience::Whole(WRITE_TIMEOUT), RETRIES)?;
        let signer = settings.is_signed.then(|| quick.clone());
        Self::on([Arc::new(quick), Arc::new(reading), Arc::new(writing)], signer, url)
    }

    fn on(
        [quick, reading, writing]: [Arc<dyn ObjectStore>; 3],
        signer: Option<AmazonS3>,
        url: &str,
    ) -> Result<Self, S3Error> {
        let (bucket, prefix, is_below) = parts_of(url)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("objects")
            .enable_all()
            .build()
            .map_err(|error| S3Error::System(error.to_string()))?;
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self {
            shared: Arc::new(Shared {
                quick,
                reading,
                writing,
                signer,
                runtime,
                room: Arc::default(),
                is_lost: AtomicBool::new(false),
            }),
            url: format!("s3://{bucket}{slash}{prefix}"),
            prefix: prefix.to_owned(),
            is_below,
        })
    }

    fn key(&self, name: &str) -> io::Result<Path> {
        let key = match (&*self.prefix, name) {
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        };
        Path::parse(key).map_err(|error| failed(error.into()))
    }

    /// A listed object, as it is seen from here; none for that of the folder itself, as some programs mark it.
    fn stored(&self, listed: &ObjectMeta) -> io::Result<Option<Stored>> {
        let key = listed.location.as_ref();
        let name = match &*self.prefix {
            "" => Some(key),
            prefix if key == prefix => return Ok(None),
            prefix => key.strip_prefix(prefix).and_then(|behind| behind.strip_prefix('/')),
        };
        name.map(|name| Some(stored(name, listed))).ok_or_else(elsewhere)
    }

    async fn all_below(&self, limit: usize) -> io::Result<Vec<Stored>> {
        let Shared { reading, .. } = &*self.shared;
        let prefix = self.key("")?;
        let mut listed = reading.list(Some(&prefix));
        let (mut all, mut count, mut mark) = (Vec::new(), 0_u64, None);
        while let Some(one) = goes_on(listed.try_next()).await? {
            // A list that begins again, wherever, has one of the keys again at which the count is a power of two.
            if mark.as_ref() == Some(&one.location) {
                return Err(goes_round());
            }
            count += 1;
            if count.is_power_of_two() {
                mark = Some(one.location.clone());
            }
            all.extend(self.stored(&one)?);
            if all.len() > limit {
                break;
            }
        }
        // Keys that end with a slash are listed without it, and found with it only.
        let empty = all.iter_mut().filter(|stored| stored.size == 0);
        let mut names = HashSet::new();
        let asked = stream::iter(empty.map(|stored| {
            let is_second = !names.insert(stored.name.clone());
            async move {
                let found = head(reading, &self.key(&stored.name)?).await?;
                let is_it = |(found, _): &(ObjectMeta, _)| {
                    found.size == 0 && found.e_tag.as_ref().is_none_or(|tag| *tag == stored.tag)
                };
                if is_second || !found.as_ref().is_some_and(is_it) {
                    stored.name.push('/');
                }
                Ok::<_, io::Error>(())
            }
        }));
        asked.buffer_unordered(MAX_ASKS).try_collect::<()>().await?;
        Ok(all)
    }
}

/// The next key of a list.
async fn goes_on(
    next: impl Future<Output = object_store::Result<Option<ObjectMeta>>>,
) -> io::Result<Option<ObjectMeta>> {
    match timeout(LIST_TIMEOUT, next).await {
        Ok(next) => next.map_err(failed),
        Err(_) => Err(goes_round()),
    }
}

/// Waits, unless all is over.
async fn unless<T>(over: &AtomicBool, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut work = pin!(work);
    loop {
        match timeout(LOOK, &mut work).await {
            Ok(done) => return done,
            Err(_) if over.load(Ordering::Relaxed) => return Err(over_error()),
            Err(_) => {}
        }
    }
}

fn elsewhere() -> io::Error {
    let text = "the store lists keys that are not below the prefix: check AWS_ENDPOINT_URL";
    io::Error::new(ErrorKind::InvalidData, text)
}

fn goes_round() -> io::Error {
    let text = "the store's list does not end: check AWS_ENDPOINT_URL";
    io::Error::new(ErrorKind::InvalidData, text)
}

/// The object of this key, if there is one, and the time of the file that it was.
async fn head(
    store: &dyn ObjectStore,
    key: &Path,
) -> io::Result<Option<(ObjectMeta, Option<Stamp>)>> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    let found = match store.get_opts(key, options).await.map_err(failed) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let name = Attribute::Metadata(Cow::Borrowed(mtime::NAME));
    let modified = found.attributes.get(&name).and_then(|text| mtime::of_text(text));
    Ok(Some((found.meta, modified)))
}

/// A listed object, whose time is that at which it was stored.
fn stored(name: &str, listed: &ObjectMeta) -> Stored {
    let time = listed.last_modified;
    let modified = Stamp { secs: time.timestamp(), ns: time.timestamp_subsec_nanos() };
    Stored {
        name: name.to_owned(),
        size: listed.size,
        modified: Some(modified),
        tag: listed.e_tag.clone().unwrap_or_default(),
    }
}

/// The bucket and the prefix of a URL, and whether it ends with a slash.
fn parts_of(url: &str) -> Result<(&str, &str, bool), S3Error> {
    let rest = url.strip_prefix("s3://").ok_or(S3Error::Url)?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let is_of_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if bucket.is_empty() || !bucket.chars().all(is_of_bucket) {
        return Err(S3Error::Url);
    }
    let prefix = key.strip_suffix('/').unwrap_or(key);
    match Path::parse(prefix) {
        Ok(path) if path.as_ref() == prefix => {
            Ok((bucket, prefix, key.ends_with('/') || key.is_empty()))
        }
        _ => Err(S3Error::Prefix),
    }
}

impl Bucket for S3 {
    fn url(&self) -> &str {
        &self.url
    }

    fn check(&self) -> io::Result<()> {
        let Shared { quick, signer, runtime, .. } = &*self.shared;
        let prefix = self.key("")?;
        runtime.block_on(async {
            if let Some(signer) = signer {
                signer.credentials().get_credential().await.map_err(error::no_credentials)?;
            }
            let mut listed = quick.list(Some(&prefix));
            let first = timeout(WHOLE_CHECK_TIMEOUT, listed.try_next());
            match first.await.map_err(|_| goes_round())? {
                // That matters to those who read it.
                Err(StoreError::InvalidPath { .. }) => Ok(()),
                listed => listed.map(drop).map_err(failed),
            }
        })
    }

    fn list(&self, limit: usize) -> io::Result<Vec<Stored>> {
        self.check()?;
        let Shared { quick, runtime, .. } = &*self.shared;
        runtime.block_on(async {
            let single = match self.is_below {
                true => None,
                false => head(quick, &self.key("")?).await?,
            };
            if let Some((single, _)) = single {
                return Ok(vec![stored("", &single)]);
            }
            self.all_below(limit).await
        })
    }

    fn look(&self, name: &str) -> io::Result<Option<Stored>> {
        let key = self.key(name)?;
        let found = self.shared.runtime.block_on(head(&self.shared.reading, &key))?;
        Ok(found.map(|(found, modified)| Stored { modified, ..stored(name, &found) }))
    }

    fn read(
        &self,
        stored: &Stored,
        from: u64,
        over: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Read + Send>> {
        let object = (self.key(&stored.name)?, &*stored.tag);
        let over = Arc::clone(over);
        Ok(Box::new(read::Reader::begin(&self.shared, object, (stored.size, from), over)))
    }

    fn create(
        &self,
        name: &str,
        (size, modified): (Option<u64>, Stamp),
        over: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Upload>> {
        if size.is_some_and(|size| size > MAX_OBJECT_BYTES) {
            let text = "it is larger than the 5 TiB that an object may have";
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        let mut attributes = Attributes::new();
        let name_of_time = Attribute::Metadata(Cow::Borrowed(mtime::NAME));
        attributes.insert(name_of_time, mtime::to_text(modified).into());
        let about = (self.key(name)?, attributes);
        Ok(Box::new(upload::Upload::new(&self.shared, about, size, Arc::clone(over))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::PutPayload;
    use object_store::memory::InMemory;

    /// A place in a store that is only in memory.
    pub(super) fn on(store: InMemory, url: &str) -> S3 {
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        S3::on([Arc::clone(&store), Arc::clone(&store), store], None, url).unwrap()
    }

    fn with(keys: &[&str], url: &str) -> S3 {
        let bucket = on(InMemory::new(), url);
        for key in keys {
            let payload = PutPayload::from(key.as_bytes().to_vec());
            let path = Path::parse(key).unwrap();
            let put = bucket.shared.writing.put_opts(&path, payload, Default::default());
            bucket.shared.runtime.block_on(put).unwrap();
        }
        bucket
    }

    fn names(bucket: &S3, limit: usize) -> Vec<String> {
        bucket.list(limit).unwrap().into_iter().map(|stored| stored.name).collect()
    }

    #[test]
    fn urls_have_a_bucket_and_a_prefix() {
        let parts = |url| parts_of(url).map_err(|error| error.to_string());
        assert_eq!(parts("s3://b"), Ok(("b", "", true)));
        assert_eq!(parts("s3://b/"), Ok(("b", "", true)));
        assert_eq!(parts("s3://b.c/d/ e"), Ok(("b.c", "d/ e", false)));
        assert_eq!(parts("s3://b/d/"), Ok(("b", "d", true)));
        for (wrong, why) in [
            ("s3:/b", "s3://BUCKET"),
            ("s3://", "s3://BUCKET"),
            ("s3://b c/d", "s3://BUCKET"),
            ("s3://b//d", "empty part"),
            ("s3://b/d//", "empty part"),
            ("s3://b/../d", "empty part"),
            ("s3://b/d\n", "control character"),
        ] {
            assert!(parts(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }

    #[test]
    fn lists_are_of_an_object_or_of_all_below() {
        let keys = ["a", "a/b", "a/c/d", "ab"];
        assert_eq!(names(&with(&keys, "s3://x"), 10), keys);
        assert_eq!(names(&with(&keys, "s3://x/a"), 10), [""]);
        assert_eq!(names(&with(&keys, "s3://x/a/"), 10), ["b", "c/d"]);
        assert_eq!(names(&with(&keys[1..], "s3://x/a"), 10), ["b", "c/d"]);
        assert_eq!(names(&with(&keys, "s3://x/none"), 10), [""; 0]);
        // One more than the limit tells that there are more.
        assert_eq!(names(&with(&keys, "s3://x"), 2), keys[..3]);
    }

    #[test]
    fn names_that_are_no_keys_are_refused() {
        let bucket = with(&[], "s3://x");
        for name in ["a//b", "a/../b", "a\nb"] {
            assert!(
                bucket.create(name, (None, Stamp::default()), &Arc::default()).is_err(),
                "{name:?}"
            );
            assert!(bucket.look(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_time_of_the_file_is_kept() {
        let bucket = with(&[], "s3://x/y");
        let time = Stamp { secs: 5, ns: 7 };
        let mut upload = bucket.create("z", (Some(0), time), &Arc::default()).unwrap();
        upload.finish();
        upload.wait().unwrap();
        let found = bucket.look("z").unwrap().unwrap();
        assert_eq!((&*found.name, found.size, found.modified), ("z", 0, Some(time)));
        assert_eq!(bucket.look("other").unwrap(), None);
    }
}
