//! Where an object store is, and who asks it: as other programs take it from the environment.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use reqwest::Url;
use std::collections::HashMap;
use std::fmt;

/// Variables that are passed on as they are. Others of the crate `object_store` have aliases, or loosen what is checked here.
const PASSED: [&str; 19] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_REQUEST_PAYER",
    "AWS_S3_EXPRESS",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_BUCKET_KEY_ENABLED",
    "AWS_SSE_CUSTOMER_KEY_BASE64",
    "AWS_SSE_KMS_KEY_ID",
];

/// Why an object store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// Not a place in an object store.
    #[error("write s3://BUCKET or s3://BUCKET/PREFIX; a bucket has letters, digits, - and .")]
    Url,
    /// A prefix that no names can be below.
    #[error(
        "the prefix has an empty part, or one that is . or .., or a control character: names below it could not be read \
         back"
    )]
    Prefix,
    /// A key without its secret, or the secret without the key.
    #[error("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither")]
    HalfCredentials,
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
    /// The library that asks the store refuses a variable.
    #[error("a variable AWS_… has a value that is not understood: {0}")]
    Other(String),
    /// The system gives no threads, or no certificate authorities.
    #[error("{0}")]
    System(String),
}

/// An endpoint, a region and credentials.
#[derive(Clone)]
pub struct Settings {
    pub(super) builder: AmazonS3Builder,
    /// Requests are signed.
    pub(super) is_signed: bool,
}

impl fmt::Debug for Settings {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |key| self.builder.get_config_value(&key);
        f.debug_struct("Settings")
            .field("endpoint", &get(AmazonS3ConfigKey::Endpoint))
            .field("region", &get(AmazonS3ConfigKey::Region))
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// As environment variables say: `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ALLOW_HTTP`, `AWS_SKIP_SIGNATURE`, and some
    /// of the crate `object_store`, as [`AmazonS3ConfigKey`] has them. Others and empty ones are left out.
    ///
    /// # Errors
    ///
    /// [`S3Error`].
    pub fn of_env(variables: impl Iterator<Item = (String, String)>) -> Result<Self, S3Error> {
        let is_ours =
            |(name, value): &(String, String)| name.starts_with("AWS_") && !value.is_empty();
        let all: HashMap<String, String> = variables.filter(is_ours).collect();
        let get = |name: &str| all.get(name).map(String::as_str);
        let is_set = |name: &str| {
            get(name).is_some_and(|value| matches!(&*value.to_lowercase(), "true" | "1" | "yes"))
        };
        let endpoint = get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL"));
        if let Some(url) = endpoint {
            check_endpoint(url.trim_end_matches('/'), is_set("AWS_ALLOW_HTTP"))?;
        }
        let region = get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION"));
        let is_region =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !region.is_none_or(is_region) {
            return Err(S3Error::Value("AWS_REGION"));
        }
        if get("AWS_ACCESS_KEY_ID").is_some() != get("AWS_SECRET_ACCESS_KEY").is_some() {
            return Err(S3Error::HalfCredentials);
        }
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"] {
            if !get(name).is_none_or(is_plain) {
                return Err(S3Error::Value(name));
            }
        }
        for name in ["AWS_METADATA_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI"] {
            if get(name).is_some_and(|url| Url::parse(url).is_err()) {
                return Err(S3Error::Value(name));
            }
        }
        let mut builder = AmazonS3Builder::new();
        for (name, value) in PASSED.iter().filter_map(|name| Some((*name, get(name)?))) {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        // Which of two is taken does not depend on their order.
        if let Some(region) = region {
            builder = builder.with_region(region);
            if endpoint.is_none() && region.starts_with("cn-") {
                builder = builder.with_endpoint(format!("https://s3.{region}.amazonaws.com.cn"));
            }
        }
        let is_signed = !is_set("AWS_SKIP_SIGNATURE");
        let is_open = endpoint.is_some_and(|url| url.starts_with("http:"));
        builder = builder.with_skip_signature(!is_signed).with_allow_http(is_open);
        Ok(Self { builder, is_signed })
    }
}

fn check_endpoint(url: &str, may_be_open: bool) -> Result<(), S3Error> {
    if url.contains('@') {
        return Err(S3Error::User);
    }
    let wrong = || S3Error::Endpoint(url.to_owned());
    let (scheme, host) = url.split_once("://").ok_or_else(wrong)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match scheme {
        "http" if !may_be_open => Err(S3Error::Http(url.to_owned())),
        // The library that carries requests has the last word on what is a host and a port.
        "http" | "https" if host.chars().all(is_host) && Url::parse(url).is_ok() => Ok(()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Result<Settings, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Settings::of_env(values.iter().map(owned)).map_err(|error| error.to_string())
    }

    const KEYS: [(&str, &str); 2] =
        [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];

    fn with(more: &[(&'static str, &'static str)]) -> Result<Settings, String> {
        settings(&[&KEYS, more].concat())
    }

    #[test]
    fn the_environment_says_where_and_who() {
        let value = |more: &[(&'static str, &'static str)], key| {
            with(more).unwrap().builder.get_config_value(&key)
        };
        let some = |text: &str| Some(text.to_owned());
        let regions = [("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_REGION", "eu-west-2")];
        assert_eq!(value(&regions, AmazonS3ConfigKey::Region), some("eu-west-2"));
        assert_eq!(value(&regions[..1], AmazonS3ConfigKey::Region), some("eu-west-1"));
        let china = [("AWS_REGION", "cn-north-1")];
        let endpoint = AmazonS3ConfigKey::Endpoint;
        assert_eq!(value(&china, endpoint), some("https://s3.cn-north-1.amazonaws.com.cn"));
        let own = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"), ("AWS_ALLOW_HTTP", "true")];
        assert_eq!(value(&own, endpoint), some("http://127.0.0.1:9000/"));
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
        for wrong in ["https://", "https://10.0.0.256:9000", "https://host:99999", "ftp://host"] {
            assert!(with(&[("AWS_ENDPOINT_URL", wrong)]).is_err(), "{wrong}");
        }
        // An alias of the library is no way around the checks.
        assert_eq!(value(&[("AWS_ENDPOINT", "http://a")], AmazonS3ConfigKey::Endpoint), None);
        assert!(with(&[("AWS_METADATA_ENDPOINT", "no url")]).is_err());
        // Empty is as if it were not set, as for other programs.
        assert!(settings(&[("AWS_ACCESS_KEY_ID", "")]).unwrap().is_signed);
        assert!(!settings(&[("AWS_SKIP_SIGNATURE", "true")]).unwrap().is_signed);
        let shown = format!("{:?}", with(&[]).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
