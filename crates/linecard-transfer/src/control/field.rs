//! Fields of messages: tag (u16), length (u32), value.

use super::text::Text;
use super::{FRAME_BYTES, MAX_FIELDS, MAX_MESSAGE_BYTES, Message, MessageError};
use alloc::vec::Vec;

/// Tag of a field, and its name in errors.
pub(super) type Tag = (u16, &'static str);

const HEAD_BYTES: usize = 6;

/// A whole number as it stands in a field.
pub(super) trait Number: Copy {
    fn append(self, out: &mut Vec<u8>);
    /// From exactly as many bytes as it has; none for any other number of them.
    fn of(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn append(self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }
            fn of(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_be_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i64);

/// The fields of a received message, not yet interpreted.
pub(super) struct Fields<'a> {
    kind: u16,
    list: [(u16, &'a [u8]); MAX_FIELDS],
    count: usize,
}

impl<'a> Fields<'a> {
    /// Locates the fields. Does not allocate.
    pub(super) fn parse(kind: u16, mut body: &'a [u8]) -> Result<Self, MessageError> {
        let mut fields = Self { kind, list: [(0, &[]); MAX_FIELDS], count: 0 };
        while !body.is_empty() {
            let (head, rest) =
                body.split_at_checked(HEAD_BYTES).ok_or(MessageError::Ragged(kind))?;
            let tag = u16::from_be_bytes([head[0], head[1]]);
            let bytes = u32::from_be_bytes([head[2], head[3], head[4], head[5]]) as usize;
            let (value, rest) = rest.split_at_checked(bytes).ok_or(MessageError::Ragged(kind))?;
            let place = fields.list.get_mut(fields.count).ok_or(MessageError::Fields)?;
            *place = (tag, value);
            fields.count += 1;
            body = rest;
        }
        Ok(fields)
    }

    /// The value of a field, if it is present.
    pub(super) fn maybe(&self, (tag, field): Tag) -> Result<Option<&'a [u8]>, MessageError> {
        let mut values = self.list[..self.count]
            .iter()
            .filter(|(other, _)| *other == tag)
            .map(|(_, value)| *value);
        let value = values.next();
        match values.next() {
            None => Ok(value),
            Some(_) => Err(MessageError::Duplicate { message: self.kind, field }),
        }
    }

    pub(super) fn value(&self, tag: Tag) -> Result<&'a [u8], MessageError> {
        let missing = MessageError::Missing { message: self.kind, field: tag.1 };
        self.maybe(tag)?.ok_or(missing)
    }

    pub(super) fn number<N: Number>(&self, tag: Tag) -> Result<N, MessageError> {
        whole(tag, self.value(tag)?)
    }

    pub(super) fn maybe_number<N: Number>(&self, tag: Tag) -> Result<Option<N>, MessageError> {
        self.maybe(tag)?.map(|value| whole(tag, value)).transpose()
    }

    /// A field of exactly this many bytes.
    pub(super) fn array<const N: usize>(&self, tag: Tag) -> Result<[u8; N], MessageError> {
        let value = self.value(tag)?;
        value.try_into().map_err(|_| MessageError::Length { field: tag.1, bytes: value.len() })
    }

    /// A field of exactly this many bytes that may be missing.
    pub(super) fn maybe_array<const N: usize>(
        &self,
        tag: Tag,
    ) -> Result<Option<[u8; N]>, MessageError> {
        let wrong = |value: &[u8]| MessageError::Length { field: tag.1, bytes: value.len() };
        self.maybe(tag)?.map(|value| value.try_into().map_err(|_| wrong(value))).transpose()
    }

    /// `least` to `most` elements of `N` bytes each, counted before they are looked at.
    pub(super) fn list<const N: usize>(
        &self,
        tag: Tag,
        (least, most): (usize, usize),
    ) -> Result<&'a [[u8; N]], MessageError> {
        let value = self.value(tag)?;
        let (elements, rest) = value.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(MessageError::Length { field: tag.1, bytes: value.len() });
        }
        in_limits(tag, elements.len(), (least, most))?;
        Ok(elements)
    }

    /// At most `most` bytes.
    pub(super) fn bytes(&self, tag: Tag, most: usize) -> Result<&'a [u8], MessageError> {
        let value = self.value(tag)?;
        in_limits(tag, value.len(), (0, most))?;
        Ok(value)
    }

    /// A text for the user; none is an empty one.
    pub(super) fn text(&self, tag: Tag) -> Result<Text, MessageError> {
        let value = self.maybe(tag)?.unwrap_or_default();
        in_limits(tag, value.len(), (0, super::MAX_TEXT_BYTES))?;
        Ok(Text::of(value))
    }
}

fn whole<N: Number>((_, field): Tag, value: &[u8]) -> Result<N, MessageError> {
    N::of(value).ok_or(MessageError::Length { field, bytes: value.len() })
}

fn in_limits(
    (_, field): Tag,
    count: usize,
    (least, most): (usize, usize),
) -> Result<(), MessageError> {
    if (least..=most).contains(&count) {
        Ok(())
    } else {
        Err(MessageError::Count { field, count, least, most })
    }
}

/// A message being written.
pub(super) struct Frame<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    kind: u16,
}

impl<'a> Frame<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: u16) -> Self {
        let start = out.len();
        out.extend(kind.to_be_bytes());
        out.extend([0; 4]);
        Self { out, start, kind }
    }

    pub(super) fn number(&mut self, tag: u16, number: impl Number) {
        self.field(tag, |out| number.append(out));
    }

    pub(super) fn bytes(&mut self, tag: u16, bytes: &[u8]) {
        self.field(tag, |out| out.extend(bytes));
    }

    /// Elements one behind the other, each written by `append`.
    pub(super) fn list<T>(&mut self, tag: u16, list: &[T], append: impl Fn(&T, &mut Vec<u8>)) {
        self.field(tag, |out| list.iter().for_each(|element| append(element, out)));
    }

    fn field(&mut self, tag: u16, value: impl FnOnce(&mut Vec<u8>)) {
        self.out.extend(tag.to_be_bytes());
        self.out.extend([0; 4]);
        let begin = self.out.len();
        value(self.out);
        self.put_length(begin);
    }

    /// Writes the number of bytes from `begin` on into the four bytes before.
    fn put_length(&mut self, begin: usize) {
        let bytes = u32::try_from(self.out.len() - begin).unwrap_or(u32::MAX);
        self.out[begin - 4..begin].copy_from_slice(&bytes.to_be_bytes());
    }

    /// Completes the message, and parses it as the other end will, so that limits are checked in
    /// one place.
    pub(super) fn end(
        mut self,
        parse: impl FnOnce(u16, &[u8]) -> Result<Option<Message>, MessageError>,
    ) -> Result<(), MessageError> {
        let begin = self.start + FRAME_BYTES;
        self.put_length(begin);
        let bytes = self.out.len() - begin;
        let read = if bytes > MAX_MESSAGE_BYTES {
            Err(MessageError::TooLong(u32::try_from(bytes).unwrap_or(u32::MAX)))
        } else {
            parse(self.kind, &self.out[begin..]).map(|_| ())
        };
        if read.is_err() {
            self.out.truncate(self.start);
        }
        read
    }
}
