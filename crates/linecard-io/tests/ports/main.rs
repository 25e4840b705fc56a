//! Live ports on real interfaces: each test makes its own network namespace, which is removed with the test. They need
//! root; without it they say so and pass.

mod joined;
mod lab;
mod packet;
mod refused;
mod slots;
mod sys;
mod takeover;
#[path = "../kernel/sys.rs"]
#[expect(dead_code, reason = "shared with the kernel as witness, which uses the rest")]
mod witness;
