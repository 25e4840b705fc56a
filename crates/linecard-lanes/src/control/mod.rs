//! The control channel: TCP with TLS 1.3, keys pinned or shared.
