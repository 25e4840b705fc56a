//! The few elements that are read of answers in XML, which a signed request has asked for.

/// Contents of all elements of a name that are not in one another.
pub(super) fn all<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let begin = rest.find(&open)? + open.len();
        let end = begin + rest[begin..].find(&close)?;
        let inner = &rest[begin..end];
        rest = &rest[end + close.len()..];
        Some(inner)
    })
}

/// The text of the first element of a name.
pub(super) fn text(xml: &str, name: &str) -> Option<String> {
    all(xml, name).next().map(unescaped)
}

fn unescaped(text: &str) -> String {
    let entities =
        [("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">")];
    let text = entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&amp;", "&")
}

/// A key of a list that was asked to encode keys as URLs do; none if that is not UTF-8.
pub(super) fn decoded(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found() {
        let xml = "<L><A><K>x&amp;quot;</K></A><A><K>&quot;y&quot;</K></A><A><K>cut";
        let keys: Vec<_> = all(xml, "A").map(|one| text(one, "K")).collect();
        assert_eq!(keys, [Some("x&quot;".to_owned()), Some("\"y\"".to_owned())]);
        assert_eq!(text(xml, "B"), None);
    }

    #[test]
    fn keys_are_decoded() {
        assert_eq!(decoded("a%2Fb+c%2B/d%C3%A4").as_deref(), Some("a/b c+/dä"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
