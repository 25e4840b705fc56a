//! Compressed captures: gzip, zstd and lz4, recognised by their first bytes when they are read, and by
//! the name of the file when they are written.
//!
//! Files of several frames or members in a row are read as one. Memory is bounded: windows of at most
//! [`MAX_WINDOW`] are accepted.

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{FrameDecoder as Lz4Decoder, FrameEncoder as Lz4Encoder};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read, Write};
use std::path::Path;

/// The largest window of zstd, as its command accepts by default.
pub const MAX_WINDOW: u64 = 128 << 20;
/// Bytes that become one frame of zstd: a file of many frames costs little more than one of one.
const ZSTD_FRAME: usize = 4 << 20;
/// Bytes that are read to recognise a compression.
const MAGIC: usize = 4;

/// How a capture is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// LZ4 frames.
    Lz4,
}

impl Compression {
    /// The compression that the name of a file asks for, by its ending.
    ///
    /// ```
    /// use linecard_io::capture::Compression;
    /// use std::path::Path;
    /// assert_eq!(Compression::of_name(Path::new("a.pcap.gz")), Compression::Gzip);
    /// assert_eq!(Compression::of_name(Path::new("gz")), Compression::None);
    /// ```
    #[must_use]
    pub fn of_name(path: &Path) -> Self {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            Some("lz4") => Self::Lz4,
            _ => Self::None,
        }
    }

    /// Whether the name of a file asks for a compression that is not written.
    #[must_use]
    pub fn is_unknown(path: &Path) -> bool {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        ["bz2", "xz", "lzma", "br", "z", "zip", "7z"].iter().any(|other| ending == *other)
    }

    /// The compression of a file whose first four bytes are these.
    #[must_use]
    pub fn of_start(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18] => Self::Lz4,
            _ => Self::None,
        }
    }
}

/// An input whose compression, if it has any, is undone, as [`Decompressed`] does it. The decoders are compiled here, once,
/// and not for each kind of input where it is read.
pub fn decompressed<'i>(input: impl Read + 'i) -> Box<dyn Read + 'i> {
    fn undo<'i>(input: Box<dyn Read + 'i>) -> Box<dyn Read + 'i> {
        Box::new(Decompressed::new(input))
    }
    undo(Box::new(input))
}

/// The bytes read to recognise a compression, and the rest.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// An input whose compression, if it has any, is undone.
pub struct Decompressed<R: Read>(Decoder<R>);

enum Decoder<R: Read> {
    /// Its first bytes were not looked at yet.
    New(Option<R>),
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
    Zstd(Box<Zstd<BufReader<Whole<R>>>>),
    Lz4(Box<Lz4Decoder<BufReader<Whole<R>>>>),
}

impl<R: Read> std::fmt::Debug for Decompressed<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressed").finish_non_exhaustive()
    }
}

impl<R: Read> Decompressed<R> {
    /// Reads nothing yet.
    pub const fn new(input: R) -> Self {
        Self(Decoder::New(Some(input)))
    }
}

impl<R: Read> Decoder<R> {
    /// By the first bytes of the input.
    fn of(mut input: R) -> io::Result<Self> {
        let mut start = Vec::with_capacity(MAGIC);
        (&mut input).take(MAGIC as u64).read_to_end(&mut start)?;
        let compression = Compression::of_start(&start);
        let whole = Cursor::new(start).chain(input);
        Ok(match compression {
            Compression::None => Self::Plain(whole),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(whole)))),
            Compression::Zstd => Self::Zstd(Box::new(Zstd::new(BufReader::new(whole)))),
            Compression::Lz4 => Self::Lz4(Box::new(Lz4Decoder::new(BufReader::new(whole)))),
        })
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Decoder::New(input) = &mut self.0 {
            let Some(input) = input.take() else { return Ok(0) };
            self.0 = Decoder::of(input)?;
        }
        let (result, with) = match &mut self.0 {
            Decoder::New(_) => return Ok(0),
            Decoder::Plain(input) => return input.read(buffer),
            Decoder::Gzip(input) => (input.read(buffer), "gzip"),
            Decoder::Zstd(input) => (input.read(buffer), "zstd"),
            Decoder::Lz4(input) => (read_lz4(input, buffer), "lz4"),
        };
        // An error of the system is not one of the data.
        result.map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => io::Error::new(ErrorKind::InvalidData, format!("{with}: {error}")),
        })
    }
}

/// At the end of a frame nothing is read; another one may follow.
fn read_lz4<R: Read>(input: &mut Lz4Decoder<R>, buffer: &mut [u8]) -> io::Result<usize> {
    match input.read(buffer)? {
        0 => input.read(buffer),
        count => Ok(count),
    }
}

/// Frames of zstd in a row.
struct Zstd<R: Read> {
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
    /// Between two frames.
    input: Option<R>,
}

impl<R: Read + BufRead> Zstd<R> {
    const fn new(input: R) -> Self {
        Self { frame: None, input: Some(input) }
    }
}

impl<R: Read + BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                match frame.read(buffer)? {
                    0 if !buffer.is_empty() => {}
                    count => return Ok(count),
                }
            }
            if let Some(frame) = self.frame.take() {
                let (input, frame) = frame.into_parts();
                let said = frame.get_checksum_from_data();
                if said.is_some() && said != frame.get_calculated_checksum() {
                    return Err(ErrorKind::InvalidData.into());
                }
                self.input = Some(input);
            }
            let Some(mut input) = self.input.take() else { return Ok(0) };
            if input.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new_with_max_window_size(input, MAX_WINDOW);
            self.frame = Some(frame.map_err(io::Error::other)?);
        }
    }
}

/// An output that is compressed, or not.
///
/// Compressed data is passed on in blocks: [`Write::flush`] does nothing for it.
pub(super) enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd { output: W, pending: Vec<u8> },
    Lz4(Box<Lz4Encoder<W>>),
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(output: W, compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(output),
            Compression::Gzip => Self::Gzip(GzEncoder::new(output, flate2::Compression::default())),
            Compression::Zstd => Self::Zstd { output, pending: Vec::with_capacity(ZSTD_FRAME) },
            Compression::Lz4 => Self::Lz4(Box::new(Lz4Encoder::new(output))),
        }
    }

    /// The output.
    pub(super) fn get_ref(&self) -> &W {
        match self {
            Self::Plain(output) | Self::Zstd { output, .. } => output,
            Self::Gzip(encoder) => encoder.get_ref(),
            Self::Lz4(encoder) => encoder.get_ref(),
        }
    }

    /// Writes the rest, and gives back what was written to.
    pub(super) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd { mut output, pending } => {
                // An empty file needs a frame, too.
                output.write_all(&compress_to_vec(&pending[..], CompressionLevel::Fastest))?;
                Ok(output)
            }
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::other),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd { output, pending } => {
                let taken = bytes.len().min(ZSTD_FRAME - pending.len());
                pending.extend_from_slice(&bytes[..taken]);
                if pending.len() == ZSTD_FRAME {
                    let frame = compress_to_vec(&pending[..], CompressionLevel::Fastest);
                    pending.clear();
                    output.write_all(&frame)?;
                }
                Ok(taken)
            }
            Self::Lz4(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            _ => Ok(()),
        }
    }
}

impl<W: Write> std::fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compression; 4] =
        [Compression::None, Compression::Gzip, Compression::Zstd, Compression::Lz4];

    /// Bytes of which a part repeats.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| if at % 64 < 40 { 7 } else { ((at * at) >> 7) as u8 }).collect()
    }

    fn compressed(bytes: &[u8], compression: Compression) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new(), compression);
        for part in bytes.chunks(100_003) {
            encoder.write_all(part).expect("memory");
            encoder.flush().expect("memory");
        }
        encoder.finish().expect("memory")
    }

    fn read(input: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Decompressed::new(input).read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn what_was_compressed_is_read_as_it_was() {
        for compression in ALL {
            for len in [0, 1, 3, 4, 5_000, ZSTD_FRAME, ZSTD_FRAME + 1, 2 * ZSTD_FRAME + 77] {
                let bytes = bytes(len);
                let file = compressed(&bytes, compression);
                assert!(len < 5_000 || compression == Compression::None || file.len() < len / 2);
                assert!(read(&file).expect("whole") == bytes, "{compression:?} {len}");
            }
        }
    }

    #[test]
    fn several_files_in_a_row_are_one() {
        let bytes = bytes(5_000);
        for compression in ALL {
            let file = compressed(&bytes, compression);
            let twice = [&file[..], &file].concat();
            assert!(
                read(&twice).expect("whole") == [&bytes[..], &bytes].concat(),
                "{compression:?}"
            );
        }
    }

    #[test]
    fn a_cut_or_changed_file_is_damaged() {
        for (compression, name) in ALL.into_iter().zip(["", "gzip", "zstd", "lz4"]).skip(1) {
            let file = compressed(&bytes(100_000), compression);
            let error = read(&file[..file.len() / 2]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{compression:?} {error}");
            assert!(error.to_string().starts_with(name), "{error}");
            let mut changed = file.clone();
            changed[file.len() / 2] ^= 0x10;
            assert!(read(&changed).map_or(true, |read| read != bytes(100_000)), "{compression:?}");
        }
    }

    #[test]
    fn an_error_of_the_system_stays_one() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        let start: &[u8] = &compressed(&bytes(5_000), Compression::Gzip)[..100];
        let error = Decompressed::new(start.chain(Fails)).read_to_end(&mut Vec::new());
        assert_eq!(error.expect_err("fails").raw_os_error(), Some(5));
    }
}
