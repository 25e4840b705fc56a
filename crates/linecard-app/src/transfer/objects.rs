//! Places in object stores, as the user writes them: `s3://bucket/prefix`.

use super::error::TransferError;
use linecard_config::ConfigError;
use linecard_transfer_net::file::Bucket;
use std::path::Path;
use std::sync::Arc;

/// The beginning of such a place.
const SCHEME: &[u8] = b"s3://";

/// Whether a path is one.
pub(super) fn is_url(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(SCHEME)
}

/// The place that `path` is, which is the parameter of that name; nothing is asked for yet.
#[cfg(feature = "objects")]
pub(super) fn bucket(path: &Path, parameter: &str) -> Result<Arc<dyn Bucket>, ConfigError> {
    use linecard_transfer_net::s3::{S3, S3Error, Settings};
    let refused = |error| {
        let error = TransferError::Objects { path: path.to_path_buf(), error };
        ConfigError::of_parameter(parameter, error)
    };
    let url = path.to_str().ok_or(S3Error::Url).map_err(refused)?;
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let settings = Settings::of_env(variables).map_err(refused)?;
    Ok(Arc::new(S3::new(url, &settings).map_err(refused)?))
}

#[cfg(not(feature = "objects"))]
pub(super) fn bucket(path: &Path, parameter: &str) -> Result<Arc<dyn Bucket>, ConfigError> {
    let error = TransferError::NoObjects { path: path.to_path_buf() };
    Err(ConfigError::of_parameter(parameter, error))
}
