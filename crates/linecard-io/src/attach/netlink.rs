//! Messages of rtnetlink, in the form in which `ip address save` and `ip route save` write them and `restore` takes them.
//!
//! `ip` does not accept every text that it prints of a route; a message has all that the kernel knows of the route, and
//! creates the same one.

use std::ops::Range;

/// Bytes of a message's header: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Bytes of an attribute's header: length, type.
const ATTRIBUTE: usize = 4;
/// Bits of an attribute's type that say what is in it.
const KIND: u16 = 0x3FFF;
/// `NLM_F_REPLACE`, `NLM_F_APPEND`.
const REPLACE: u16 = 0x100;
const APPEND: u16 = 0x800;

/// The object of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    Address,
    Route,
}

impl Object {
    /// As `ip` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Route => "route",
        }
    }

    /// The number before all messages, and the type of each.
    fn numbers(self) -> (u32, u16) {
        match self {
            Self::Address => (0x4736_1222, 20),
            Self::Route => (0x4531_1224, 24),
        }
    }

    /// Bytes between a message's header and its attributes: `struct ifaddrmsg`, `struct rtmsg`.
    fn fixed(self) -> usize {
        match self {
            Self::Address => 8,
            Self::Route => 12,
        }
    }
}

/// An address or a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    object: Object,
    bytes: Vec<u8>,
}

impl Message {
    /// All messages of what `ip` has saved; `None` if that is something else.
    pub(super) fn all(object: Object, saved: &[u8]) -> Option<Vec<Self>> {
        let (magic, number) = object.numbers();
        let (found, mut rest) = saved.split_first_chunk()?;
        if u32::from_ne_bytes(*found) != magic {
            return None;
        }
        let mut messages = Vec::new();
        while let Some(length) = u32_at(rest, 0) {
            let length = length as usize;
            let bytes = rest.get(..length)?.to_vec();
            if length < HEADER + object.fixed() || u16_at(&bytes, 4)? != number {
                return None;
            }
            messages.push(Self { object, bytes });
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        rest.is_empty().then_some(messages)
    }

    /// As `ip` would have saved it alone.
    pub(super) fn saved(&self) -> Vec<u8> {
        [&self.object.numbers().0.to_ne_bytes()[..], &self.bytes].concat()
    }

    pub(super) fn object(&self) -> Object {
        self.object
    }

    /// A byte behind the header.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes[HEADER + at]
    }

    /// A number behind the header.
    pub(super) fn number(&self, at: usize) -> u32 {
        u32_at(&self.bytes, HEADER + at).unwrap_or(0)
    }

    pub(super) fn set_number(&mut self, at: usize, value: u32) {
        if let Some(place) = self.bytes.get_mut(HEADER + at..HEADER + at + 4) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// It changes an existing entry, instead of being refused because of it.
    pub(super) fn replacing(mut self) -> Self {
        self.set_flags(REPLACE);
        self
    }

    /// It comes behind others to the same place, instead of before them.
    pub(super) fn appending(mut self) -> Self {
        self.set_flags(APPEND);
        self
    }

    /// It comes before others to the same place.
    pub(super) fn prepending(mut self) -> Self {
        self.set_flags(0);
        self
    }

    fn set_flags(&mut self, flags: u16) {
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    }

    /// The content of an attribute.
    pub(super) fn attribute(&self, kind: u16) -> Option<&[u8]> {
        self.place(kind).map(|place| &self.bytes[place.start + ATTRIBUTE..place.end])
    }

    /// A number at the beginning of an attribute.
    pub(super) fn attribute_number(&self, kind: u16) -> Option<u32> {
        u32_at(self.attribute(kind)?, 0)
    }

    /// Sets an attribute, which gets the last place if it is new.
    pub(super) fn set(&mut self, kind: u16, content: &[u8]) {
        self.remove(kind);
        let length = (ATTRIBUTE + content.len()) as u16;
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        for part in [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), content] {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.set_length();
    }

    pub(super) fn remove(&mut self, kind: u16) {
        if let Some(Range { start, end }) = self.place(kind) {
            let end = end.next_multiple_of(4).min(self.bytes.len());
            self.bytes.drain(start..end);
            self.set_length();
        }
    }

    fn set_length(&mut self) {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Where an attribute is, its header included.
    fn place(&self, kind: u16) -> Option<Range<usize>> {
        let mut start = HEADER + self.object.fixed();
        loop {
            let length = usize::from(u16_at(&self.bytes, start)?);
            let found = u16_at(&self.bytes, start + 2)? & KIND;
            let end = start + length;
            if length < ATTRIBUTE || end > self.bytes.len() {
                return None;
            }
            if found == kind {
                return Some(start..end);
            }
            start = end.next_multiple_of(4);
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message with these attributes, as the kernel lays it out.
    pub(crate) fn message(object: Object, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&object.numbers().1.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        let mut message = Message { object, bytes };
        attributes.iter().for_each(|(kind, content)| message.set(*kind, content));
        message.set_length();
        message
    }

    #[test]
    fn attributes_are_found_changed_and_removed() {
        let mut route =
            message(Object::Route, &[0; 12], &[(1, &[10, 0, 0]), (4, &7_u32.to_ne_bytes())]);
        assert_eq!(
            (route.attribute(1), route.attribute_number(4)),
            (Some(&[10, 0, 0][..]), Some(7))
        );
        route.set(4, &9_u32.to_ne_bytes());
        route.set(6, &[1; 4]);
        assert_eq!((route.attribute_number(4), route.attribute(6)), (Some(9), Some(&[1; 4][..])));
        route.remove(1);
        route.remove(12);
        assert_eq!((route.attribute(1), route.attribute_number(4)), (None, Some(9)));
        let saved = [route.saved(), route.bytes.clone()].concat();
        assert_eq!(Message::all(Object::Route, &saved), Some(vec![route.clone(), route]));
    }

    /// `ip` of another version, or no `ip` at all.
    #[test]
    fn anything_else_is_refused_and_nothing_panics() {
        let route = message(Object::Route, &[0; 12], &[(1, &[10; 4])]);
        let saved = route.saved();
        assert_eq!(Message::all(Object::Address, &saved), None);
        for end in 0..saved.len() {
            let cut = Message::all(Object::Route, &saved[..end]);
            assert!(cut.is_none_or(|messages| messages.is_empty()), "{end}");
        }
        for at in 4..saved.len() {
            for value in [0, 1, 255] {
                let mut damaged = saved.clone();
                damaged[at] = value;
                for mut message in Message::all(Object::Route, &damaged).into_iter().flatten() {
                    (1..30).for_each(|kind| message.remove(kind));
                    message.set(4, &[1; 4]);
                }
            }
        }
    }
}
