//! Unpredictable numbers.

use linecard_transfer::lane::Challenges;
use ring::rand::{SecureRandom, SystemRandom};
use std::io;

/// An unpredictable number.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Challenges of which none follows from others: the count of them, hashed with a key of this process.
pub(crate) fn challenges() -> io::Result<Challenges> {
    let mut key = [0; blake3::KEY_LEN];
    for part in key.chunks_exact_mut(8) {
        part.copy_from_slice(&random()?.to_le_bytes());
    }
    let mut count = 0_u64;
    Ok(Challenges::new(move || {
        count += 1;
        let hash = blake3::keyed_hash(&key, &count.to_le_bytes());
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }))
}
