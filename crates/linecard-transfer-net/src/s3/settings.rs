//! Where an object store is, and who asks it: as other programs take it from the environment.

use super::sign::Credentials;
use std::fmt;

/// Why an object store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// Not a place in an object store.
    #[error("write s3://BUCKET or s3://BUCKET/PREFIX; a bucket has letters, digits, - and .")]
    Url,
    /// A prefix that no names can be below.
    #[error(
        "the prefix has an empty part, or one that is . or ..: names below it could not be read back"
    )]
    Prefix,
    /// No credentials.
    #[error(
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if there is one; for a \
         public bucket AWS_SKIP_SIGNATURE=true"
    )]
    NoCredentials,
    /// A value that no header can have.
    #[error("{0} has characters that it cannot have")]
    Value(&'static str),
    /// An endpoint with a user and perhaps a password, which are not shown.
    #[error(
        "AWS_ENDPOINT_URL has a user: write it as https://HOST:PORT, and AWS_ACCESS_KEY_ID for the key"
    )]
    User,
    /// An endpoint that is no address.
    #[error("AWS_ENDPOINT_URL={0}: write it as https://HOST:PORT")]
    Endpoint(String),
    /// Without encryption.
    #[error(
        "AWS_ENDPOINT_URL={0}: everybody on the path could read the data; use https, or set AWS_ALLOW_HTTP=true"
    )]
    Http(String),
    /// No certificates to check the store's by.
    #[error(
        "no certificate authorities on this host: install ca-certificates, or set SSL_CERT_FILE"
    )]
    NoAuthorities,
}

/// An endpoint, a region and credentials.
#[derive(Clone)]
pub struct Settings {
    pub(super) endpoint: Option<String>,
    pub(super) region: String,
    pub(super) credentials: Option<Credentials>,
}

impl fmt::Debug for Settings {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, region, .. } = self;
        f.debug_struct("Settings")
            .field("endpoint", endpoint)
            .field("region", region)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// As environment variables say, whose values `get` knows: `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`,
    /// `AWS_ALLOW_HTTP`, `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_SKIP_SIGNATURE`.
    ///
    /// # Errors
    ///
    /// [`S3Error`].
    pub fn of_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, S3Error> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let is_set = |name: &str| {
            get(name).is_some_and(|value| matches!(&*value.to_lowercase(), "true" | "1" | "yes"))
        };
        let endpoint = get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.map(|url| url.trim_end_matches('/').to_owned());
        if endpoint.as_ref().is_some_and(|url| url.contains('@')) {
            return Err(S3Error::User);
        }
        if let Some(url) = &endpoint {
            let (scheme, host) =
                url.split_once("://").ok_or_else(|| S3Error::Endpoint(url.clone()))?;
            let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
            match scheme {
                "http" if !is_set("AWS_ALLOW_HTTP") => return Err(S3Error::Http(url.clone())),
                "http" | "https" if !host.is_empty() && host.chars().all(is_host) => {}
                _ => return Err(S3Error::Endpoint(url.clone())),
            }
        }
        let region = get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(S3Error::Value("AWS_REGION"));
        }
        let credentials = match (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
            _ if is_set("AWS_SKIP_SIGNATURE") => None,
            (Some(key), Some(secret)) => {
                Some(Credentials { key, secret, token: get("AWS_SESSION_TOKEN") })
            }
            _ => return Err(S3Error::NoCredentials),
        };
        if let Some(Credentials { key, token, .. }) = &credentials
            && !(is_plain(key) && token.as_deref().is_none_or(is_plain))
        {
            return Err(S3Error::Value("AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN"));
        }
        Ok(Self { endpoint, region, credentials })
    }

    /// Origin of requests for a bucket, and the part of their path before the key.
    pub(super) fn place(&self, bucket: &str) -> (String, String) {
        match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), format!("/{bucket}")),
            None => {
                let end = if self.region.starts_with("cn-") { ".cn" } else { "" };
                let host = format!("s3.{}.amazonaws.com{end}", self.region);
                // A certificate with a * is for one part of a name.
                match bucket.contains('.') {
                    true => (format!("https://{host}"), format!("/{bucket}")),
                    false => (format!("https://{bucket}.{host}"), String::new()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Result<Settings, String> {
        let get = |name: &str| {
            values.iter().find(|(is, _)| *is == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::of_env(get).map_err(|error| error.to_string())
    }

    const KEYS: [(&str, &str); 2] =
        [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];

    fn with(more: &[(&'static str, &'static str)]) -> Result<Settings, String> {
        settings(&[&KEYS, more].concat())
    }

    #[test]
    fn the_environment_says_where_and_who() {
        let place =
            |more: &[(&'static str, &'static str)], bucket| with(more).unwrap().place(bucket);
        assert_eq!(
            place(&[], "b"),
            ("https://b.s3.us-east-1.amazonaws.com".to_owned(), String::new())
        );
        assert_eq!(
            place(&[("AWS_REGION", "cn-north-1")], "b.c"),
            ("https://s3.cn-north-1.amazonaws.com.cn".to_owned(), "/b.c".to_owned())
        );
        let own = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"), ("AWS_ALLOW_HTTP", "true")];
        assert_eq!(place(&own, "b"), ("http://127.0.0.1:9000".to_owned(), "/b".to_owned()));
        assert!(with(&own[..1]).unwrap_err().contains("AWS_ALLOW_HTTP=true"));
        assert!(
            with(&[("AWS_ENDPOINT_URL", "minio:9000")]).unwrap_err().contains("https://HOST:PORT")
        );
        assert!(
            with(&[("AWS_ENDPOINT_URL", "https://a/b c")]).unwrap_err().contains("https://HOST")
        );
        assert!(with(&[("AWS_REGION", "a/b")]).unwrap_err().contains("AWS_REGION"));
        assert!(with(&[("AWS_SESSION_TOKEN", "a\nb")]).unwrap_err().contains("AWS_SESSION_TOKEN"));
        assert!(settings(&KEYS[..1]).unwrap_err().contains("AWS_SECRET_ACCESS_KEY"));
        assert!(settings(&[("AWS_SKIP_SIGNATURE", "true")]).unwrap().credentials.is_none());
        let shown = format!("{:?}", with(&[]).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
