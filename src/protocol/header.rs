//! What comes first in every request and response, and which versions we speak.

use super::frame::Frame;
use super::wire::{put_i16, put_i32, put_no_tags, put_string, Malformed, Reader};

/// The requests a producer makes.
#[allow(clippy::enum_variant_names)] // Kafka's own names
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    Produce = 0,
    Metadata = 3,
    ApiVersions = 18,
    InitProducerId = 22,
}

impl Api {
    /// Its number on the wire.
    pub fn key(self) -> i16 {
        self as i16
    }

    pub fn name(self) -> &'static str {
        match self {
            Api::Produce => "Produce",
            Api::Metadata => "Metadata",
            Api::ApiVersions => "ApiVersions",
            Api::InitProducerId => "InitProducerId",
        }
    }

    /// The first version with compact lengths and tagged fields.
    pub fn flexible_from(self) -> i16 {
        match self {
            Api::Produce | Api::Metadata => 9,
            Api::ApiVersions => 3,
            Api::InitProducerId => 2,
        }
    }

    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// The versions that this crate speaks, both ends included.
    pub fn supported(self) -> (i16, i16) {
        match self {
            Api::Produce => (3, 13),
            Api::Metadata => (4, 13),
            Api::ApiVersions => (0, 4),
            Api::InitProducerId => (0, 5),
        }
    }
}

/// Writes the header (v1 or v2, as the version wants) to `out`.
pub fn begin_request(out: &mut Vec<u8>, api: Api, version: i16, correlation: i32, client_id: &str) {
    put_i16(out, api.key());
    put_i16(out, version);
    put_i32(out, correlation);
    // This string never became compact: brokers must be able to read it whatever the version.
    put_string(out, client_id, false);
    put_no_tags(out, api.is_flexible(version));
}

/// A frame with its header written.
pub fn request(api: Api, version: i16, correlation: i32, client_id: &str, capacity: usize) -> Frame {
    let mut frame = Frame::new(capacity + 16 + client_id.len());
    begin_request(frame.framing(), api, version, correlation, client_id);
    frame
}

/// The response's correlation id and its body.
pub fn split_response(api: Api, version: i16, frame: &[u8]) -> Result<(i32, &[u8]), Malformed> {
    // A client must be able to read an answer to ApiVersions before it knows what the broker speaks: no tagged fields there.
    let flexible = api.is_flexible(version) && api != Api::ApiVersions;
    let mut reader = Reader::new(frame, flexible);
    let correlation = reader.i32("correlation id")?;
    reader.skip_tags()?;
    Ok((correlation, reader.rest()))
}

/// The response's correlation id alone: it says which request this is the answer to.
pub fn correlation(frame: &[u8]) -> Result<i32, Malformed> {
    Reader::new(frame, false).i32("correlation id")
}
