//! The codecs for a batch's records. Each is behind a feature of its name; zstd needs a C compiler and is off by default.

use std::fmt;
use std::ops::RangeInclusive;

/// How a batch's records are compressed (`compression.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not at all.
    None = 0,
    /// Small, and slow to compress. Feature `gzip`.
    Gzip = 1,
    /// Fast. Feature `snappy`.
    Snappy = 2,
    /// Fast. Feature `lz4`.
    Lz4 = 3,
    /// Small and fairly fast; needs Kafka 2.1 or newer. Feature `zstd`.
    Zstd = 4,
}

impl Codec {
    /// All of them, by number.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// Its number in a batch's attributes.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// The codec of this number.
    pub fn from_id(id: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(id)).copied()
    }

    /// Its name in `compression.type`, and of the feature that builds it in.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// Whether this build can use it.
    pub fn is_built_in(self) -> bool {
        match self {
            Codec::None => true,
            Codec::Gzip => cfg!(feature = "gzip"),
            Codec::Snappy => cfg!(feature = "snappy"),
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The levels it knows; None: it has no levels.
    pub fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Codec::None | Codec::Snappy | Codec::Lz4 => None,
            Codec::Gzip => Some(1..=9),
            Codec::Zstd => Some(-131_072..=22),
        }
    }

    /// The first version of Produce that takes it.
    pub fn produce_from(self) -> i16 {
        if self == Codec::Zstd {
            7
        } else {
            3
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compresses `input`. `out` is a buffer for reuse: what is in it is overwritten. `level`: the codec's own default if None.
pub fn compress(codec: Codec, level: Option<i32>, input: &[u8], mut out: Vec<u8>) -> Result<Vec<u8>, String> {
    out.clear();
    if let Some(level) = level {
        match codec.levels() {
            Some(levels) if levels.contains(&level) => {}
            Some(levels) => {
                return Err(format!(
                    "{codec} has the levels {} to {}, not {level}",
                    levels.start(),
                    levels.end()
                ))
            }
            None => return Err(format!("{codec} has no levels")),
        }
    }
    match codec {
        Codec::None => {
            out.extend(input);
            Ok(out)
        }
        Codec::Gzip => gzip::compress(level, input, out),
        Codec::Snappy => snappy::compress(input, out),
        Codec::Lz4 => lz4::compress(input, out),
        Codec::Zstd => zstd_codec::compress(level, input, out),
    }
}

/// Decompresses `input`; more than `limit` bytes is an error, and no more than about that is ever held.
pub fn decompress(codec: Codec, input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    if input.is_empty() && codec != Codec::None {
        return Err(format!("{codec}: nothing there"));
    }
    match codec {
        Codec::None if input.len() > limit => Err(too_long(codec, limit)),
        Codec::None => Ok(input.to_vec()),
        Codec::Gzip => gzip::decompress(input, limit),
        Codec::Snappy => snappy::decompress(input, limit),
        Codec::Lz4 => lz4::decompress(input, limit),
        Codec::Zstd => zstd_codec::decompress(input, limit),
    }
}

fn too_long(codec: Codec, limit: usize) -> String {
    format!("{codec}: more than {limit} bytes when decompressed")
}

/// Reads all there is, up to the limit.
#[cfg(any(feature = "gzip", feature = "lz4", feature = "zstd"))]
fn read_all(codec: Codec, from: impl std::io::Read, limit: usize) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let mut out = Vec::new();
    from.take((limit as u64).saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| format!("{codec}: {error}"))?;
    if out.len() > limit {
        return Err(too_long(codec, limit));
    }
    Ok(out)
}

/// Stands in for a codec that is not built in.
#[cfg(not(all(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")))]
macro_rules! not_built_in {
    ($module:ident, $codec:expr, ($($compress_args:ty),*)) => {
        mod $module {
            use super::*;

            fn missing() -> Result<Vec<u8>, String> {
                let name = $codec.name();
                Err(format!("{name} is not built in: enable the feature `{name}` of the crate steadfast"))
            }

            pub(super) fn compress($(_: $compress_args),*) -> Result<Vec<u8>, String> {
                missing()
            }

            pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, String> {
                missing()
            }
        }
    };
}

#[cfg(not(feature = "gzip"))]
not_built_in!(gzip, Codec::Gzip, (Option<i32>, &[u8], Vec<u8>));
#[cfg(not(feature = "snappy"))]
not_built_in!(snappy, Codec::Snappy, (&[u8], Vec<u8>));
#[cfg(not(feature = "lz4"))]
not_built_in!(lz4, Codec::Lz4, (&[u8], Vec<u8>));
#[cfg(not(feature = "zstd"))]
not_built_in!(zstd_codec, Codec::Zstd, (Option<i32>, &[u8], Vec<u8>));

#[cfg(feature = "gzip")]
mod gzip {
    use super::*;
    use std::io::Write;

    pub(super) fn compress(level: Option<i32>, input: &[u8], out: Vec<u8>) -> Result<Vec<u8>, String> {
        let level = level.map_or_else(flate2::Compression::default, |l| flate2::Compression::new(l as u32));
        let mut encoder = flate2::write::GzEncoder::new(out, level);
        encoder.write_all(input).and_then(|()| encoder.finish()).map_err(|error| format!("gzip: {error}"))
    }

    pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        // More than one member, one after the other, is allowed.
        read_all(Codec::Gzip, flate2::bufread::MultiGzDecoder::new(input), limit)
    }
}

#[cfg(feature = "snappy")]
mod snappy {
    use super::*;

    /// What Java's snappy streams begin with: a magic, its own version and the oldest version that can read it.
    const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
    const STREAM_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
    /// Java's block size.
    const BLOCK: usize = 32 << 10;
    /// Three bytes of snappy say at most 64 bytes of content: a length that claims more is a lie.
    const MAX_RATIO: usize = 22;

    pub(super) fn compress(input: &[u8], mut out: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut encoder = snap::raw::Encoder::new();
        out.extend(STREAM_HEADER);
        for block in input.chunks(BLOCK) {
            let start = out.len() + 4;
            out.resize(start + snap::raw::max_compress_len(block.len()), 0);
            let len =
                encoder.compress(block, &mut out[start..]).map_err(|error| format!("snappy: {error}"))?;
            out[start - 4..start].copy_from_slice(&(len as u32).to_be_bytes());
            out.truncate(start + len);
        }
        Ok(out)
    }

    pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        // Without the magic it is one block in the format itself, as other clients write it.
        if !input.starts_with(&MAGIC) {
            block(input, limit, &mut out)?;
            return Ok(out);
        }
        let mut rest = input.get(STREAM_HEADER.len()..).ok_or("snappy: the stream's header is cut off")?;
        while !rest.is_empty() {
            // Streams may be put one behind the other.
            if let Some(behind) = rest.strip_prefix(&STREAM_HEADER) {
                rest = behind;
                continue;
            }
            let (len, behind) = rest.split_first_chunk::<4>().ok_or("snappy: a block's length is cut off")?;
            let len = u32::from_be_bytes(*len) as usize;
            let (bytes, behind) = behind
                .split_at_checked(len)
                .ok_or_else(|| format!("snappy: a block of {len} bytes, {} left", behind.len()))?;
            block(bytes, limit, &mut out)?;
            rest = behind;
        }
        Ok(out)
    }

    fn block(bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let len = snap::raw::decompress_len(bytes).map_err(|error| format!("snappy: {error}"))?;
        if len > limit - out.len() {
            return Err(too_long(Codec::Snappy, limit));
        }
        if len > bytes.len().saturating_mul(MAX_RATIO) {
            return Err(format!("snappy: {} bytes can't hold the {len} that they announce", bytes.len()));
        }
        let start = out.len();
        out.resize(start + len, 0);
        let written = snap::raw::Decoder::new()
            .decompress(bytes, &mut out[start..])
            .map_err(|error| format!("snappy: {error}"))?;
        out.truncate(start + written);
        Ok(())
    }
}

#[cfg(feature = "lz4")]
mod lz4 {
    use super::*;
    use lz4_flex::block::{compress_into, get_maximum_output_size};
    use lz4_flex::frame::FrameDecoder;

    /// As Java writes it: magic, version 1 with independent blocks of at most 64 KiB and no checksums, and the checksum of
    /// these two bytes.
    const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    const BLOCK: usize = 64 << 10;
    /// In a block's length: it is stored as it is.
    const UNCOMPRESSED: u32 = 1 << 31;
    const END_MARK: [u8; 4] = [0; 4];

    const FLAGS_AT: usize = 4;
    const CONTENT_CHECKSUM: u8 = 1 << 2;

    /// The crate's own frame encoder costs some 15 µs a frame, which is much for small batches.
    pub(super) fn compress(input: &[u8], mut out: Vec<u8>) -> Result<Vec<u8>, String> {
        out.extend(FRAME_HEADER);
        for block in input.chunks(BLOCK) {
            let start = out.len() + 4;
            out.resize(start + get_maximum_output_size(block.len()), 0);
            let mut len = compress_into(block, &mut out[start..]).map_err(|error| format!("lz4: {error}"))?;
            let mut stored = 0;
            if len >= block.len() {
                len = block.len();
                stored = UNCOMPRESSED;
                out[start..start + len].copy_from_slice(block);
            }
            out[start - 4..start].copy_from_slice(&(len as u32 | stored).to_le_bytes());
            out.truncate(start + len);
        }
        out.extend(END_MARK);
        Ok(out)
    }

    pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut rest = input;
        let out = read_all(Codec::Lz4, FrameDecoder::new(&mut rest), limit)?;
        if !rest.is_empty() {
            return Err(format!("lz4: {} bytes behind the end", rest.len()));
        }
        // The decoder takes the end of the input between two blocks for the end of the frame.
        let end_mark_from_behind =
            if input.get(FLAGS_AT).is_some_and(|flags| flags & CONTENT_CHECKSUM != 0) { 8 } else { 4 };
        let end_mark = input.len().checked_sub(end_mark_from_behind).and_then(|at| input[at..].first_chunk());
        if end_mark != Some(&END_MARK) {
            return Err("lz4: the frame has no end".into());
        }
        Ok(out)
    }
}

#[cfg(feature = "zstd")]
mod zstd_codec {
    use super::*;

    pub(super) fn compress(level: Option<i32>, input: &[u8], mut out: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut encoder = zstd::bulk::Compressor::new(level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL))
            .map_err(|error| format!("zstd: {error}"))?;
        out.reserve(zstd::zstd_safe::compress_bound(input.len()));
        encoder.compress_to_buffer(input, &mut out).map_err(|error| format!("zstd: {error}"))?;
        Ok(out)
    }

    pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut decoder =
            zstd::stream::read::Decoder::with_buffer(input).map_err(|error| format!("zstd: {error}"))?;
        // A window larger than all that may come out is asked for by nobody who means well. (8 MiB is what encoders that
        // don't know their content's length use up to high levels.)
        let window = limit.checked_ilog2().unwrap_or(0).saturating_add(1).clamp(23, 27);
        decoder.window_log_max(window).map_err(|error| format!("zstd: {error}"))?;
        read_all(Codec::Zstd, decoder, limit)
    }
}
