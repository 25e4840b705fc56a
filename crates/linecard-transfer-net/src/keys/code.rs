//! Bytes as text: base16, base32 and base64 of RFC 4648, which differ by their alphabet only.

/// Upper and lower case are the same to [`decode`].
pub(super) const BASE16: &[u8; 16] = b"0123456789abcdef";
/// Section 6, in lower case.
pub(super) const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Section 4.
pub(super) const BASE64: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` in the alphabet, whose size is a power of two; without padding.
pub(super) fn encode(bytes: &[u8], alphabet: &[u8]) -> String {
    let width = alphabet.len().ilog2();
    let letter = |bits: u32| char::from(alphabet[bits as usize & (alphabet.len() - 1)]);
    let mut text = String::new();
    let (mut held, mut count) = (0_u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        count += 8;
        while count >= width {
            count -= width;
            text.push(letter(held >> count));
        }
    }
    if count > 0 {
        text.push(letter(held << (width - count)));
    }
    text
}

/// The bytes that `text` encodes, without padding; none if it holds another letter, or bits beyond
/// the last byte that are not zero: two texts never stand for the same bytes.
pub(super) fn decode(text: &str, alphabet: &[u8]) -> Option<Vec<u8>> {
    let width = alphabet.len().ilog2();
    let mut bytes = Vec::new();
    let (mut held, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let letter = if alphabet.len() == 16 { letter.to_ascii_lowercase() } else { letter };
        let value = alphabet.iter().position(|other| *other == letter)?;
        held = held << width | value as u32;
        count += width;
        if count >= 8 {
            count -= 8;
            bytes.push((held >> count) as u8);
        }
    }
    let rest = held & ((1 << count) - 1);
    (rest == 0 && count < width).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// RFC 4648, section 10.
    #[test]
    fn equals_the_test_vectors() {
        let cases = [
            ("", "", "", ""),
            ("f", "66", "my", "Zg"),
            ("fo", "666f", "mzxq", "Zm8"),
            ("foo", "666f6f", "mzxw6", "Zm9v"),
            ("foob", "666f6f62", "mzxw6yq", "Zm9vYg"),
            ("fooba", "666f6f6261", "mzxw6ytb", "Zm9vYmE"),
            ("foobar", "666f6f626172", "mzxw6ytboi", "Zm9vYmFy"),
        ];
        for (text, base16, base32, base64) in cases {
            assert_eq!(encode(text.as_bytes(), BASE16), base16);
            assert_eq!(encode(text.as_bytes(), BASE32), base32);
            assert_eq!(encode(text.as_bytes(), BASE64), base64);
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut rng = Rng::new(21);
        for len in 0..100 {
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            for alphabet in [&BASE16[..], BASE32, BASE64] {
                assert_eq!(decode(&encode(&bytes, alphabet), alphabet), Some(bytes.clone()));
            }
        }
    }

    #[test]
    fn other_letters_and_bits_are_refused() {
        assert_eq!(decode("6G", BASE16), None);
        assert_eq!(decode("6", BASE16), None);
        assert_eq!(decode("666F", BASE16), Some(b"fo".to_vec()));
        assert_eq!(decode("Zg==", BASE64), Some(b"f".to_vec()));
        assert_eq!(decode("Zh", BASE64), None, "bits beyond the last byte");
        assert_eq!(decode("mzxw6 yq", BASE32), None);
        assert_eq!(decode("Zm9vY", BASE64), None, "a letter that completes no byte");
    }
}
