//! Unpredictable numbers.

use ring::rand::{SecureRandom, SystemRandom};
use std::io;

/// An unpredictable number.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
}
