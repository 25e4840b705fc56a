//! AF_XDP ports on a cable between two network namespaces, with the real kernel.
//!
//! Needs root and a kernel with AF_XDP; else each test says so and passes. `rate` measures and is
//! run by hand:
//!
//! ```sh
//! cargo test --release -p linecard-io --test xdp -- --ignored --nocapture rate
//! ```

#[path = "../kernel/around.rs"]
#[expect(dead_code, reason = "shared with the tests of the kernel")]
mod around;
mod bench;
mod cable;
mod cut;
mod ends;
mod joined;
#[path = "../kernel/lab.rs"]
#[expect(dead_code, reason = "shared with the tests of the kernel")]
mod lab;
mod rights;
#[path = "../kernel/sys.rs"]
#[expect(dead_code, reason = "shared with the tests of the kernel")]
mod sys;
mod tcp;
mod traffic;
