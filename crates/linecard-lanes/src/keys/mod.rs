//! Who one is, and whom one knows.
