//! The environment of the tests, and a visible report of what is missing.

/// Says that a test did nothing, and why.
pub(crate) fn skipped(what: &str, why: &str) {
    linecard_testkit::skip(what, why);
}

/// The running kernel's release, as `6.18.44`.
pub(crate) fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
