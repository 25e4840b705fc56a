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

/// A key of BLAKE3.
pub(crate) fn random_key() -> io::Result<[u8; blake3::KEY_LEN]> {
    let mut key = [0; blake3::KEY_LEN];
    for part in key.chunks_exact_mut(8) {
        part.copy_from_slice(&random()?.to_le_bytes());
    }
    Ok(key)
}

/// Challenges of which none follows from others: the count of them, hashed with a key of this process.
pub(crate) fn challenges() -> io::Result<Challenges> {
    let key = random_key()?;
    let mut count = 0_u64;
    Ok(Challenges::new(move || {
        count += 1;
        let hash = blake3::keyed_hash(&key, &count.to_le_bytes());
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The authenticated other end could compute them once, as those of all lanes came from one generator.
    #[test]
    fn challenges_depend_on_a_key_of_their_own_and_do_not_repeat() {
        let mut sources = [challenges().unwrap(), challenges().unwrap()];
        let drawn: Vec<u64> =
            sources.iter_mut().flat_map(|source| [(); 1_000].map(|()| source.next())).collect();
        // Of 2,000 random ones, two are the same once in 10^13 runs.
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
    }
}
