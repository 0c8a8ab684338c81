//! ApiVersions 0 to 4: which requests a broker takes, and in which versions.

use super::error_code::ErrorCode;
use super::frame::Frame;
use super::header::{request, Api};
use super::wire::{put_no_tags, put_string, Malformed, Reader};

/// A broker's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVersions {
    pub error: ErrorCode,
    /// Api key, first and last version.
    pub ranges: Vec<(i16, i16, i16)>,
    pub throttle_ms: i32,
}

pub fn encode(version: i16, correlation: i32, client_id: &str) -> Frame {
    let mut frame = request(Api::ApiVersions, version, correlation, client_id, 32);
    let flexible = Api::ApiVersions.is_flexible(version);
    let out = frame.framing();
    if version >= 3 {
        put_string(out, "steadfast", flexible);
        put_string(out, env!("CARGO_PKG_VERSION"), flexible);
    }
    put_no_tags(out, flexible);
    frame.finish()
}

pub fn decode(body: &[u8], version: i16) -> Result<ApiVersions, Malformed> {
    let error = ErrorCode::from(Reader::new(body, false).i16("error code")?);
    // A broker that doesn't speak the version asked for can only answer in the first one.
    let version = if error == ErrorCode::UnsupportedVersion { 0 } else { version };
    let flexible = Api::ApiVersions.is_flexible(version);
    let mut reader = Reader::new(body, flexible);
    reader.i16("error code")?;
    let ranges = reader.items(if flexible { 7 } else { 6 }, "versions", |reader| {
        let range = (reader.i16("api key")?, reader.i16("first version")?, reader.i16("last version")?);
        reader.skip_tags()?;
        Ok(range)
    })?;
    let throttle_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
    reader.skip_tags()?;
    reader.end("ApiVersions response")?;
    Ok(ApiVersions { error, ranges, throttle_ms })
}

/// The versions to use on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    produce: i16,
    metadata: i16,
    init_producer_id: Option<i16>,
}

impl Versions {
    /// The newest versions that both sides speak. An error, in words, where the broker can't be used at all.
    pub fn agree(answer: &ApiVersions) -> Result<Versions, String> {
        Ok(Versions {
            produce: needed(answer, Api::Produce)?,
            metadata: needed(answer, Api::Metadata)?,
            init_producer_id: common(answer, Api::InitProducerId),
        })
    }

    pub fn produce(&self) -> i16 {
        self.produce
    }

    pub fn metadata(&self) -> i16 {
        self.metadata
    }

    /// None: the broker knows no producer ids.
    pub fn init_producer_id(&self) -> Option<i16> {
        self.init_producer_id
    }
}

fn offered(answer: &ApiVersions, api: Api) -> Option<(i16, i16)> {
    answer.ranges.iter().find(|(key, _, _)| *key == api.key()).map(|&(_, first, last)| (first, last))
}

/// The newest one that both speak. Some brokers name a first version of Produce that they no longer take (KAFKA-18659);
/// that does no harm here, because ours starts at 3.
fn common(answer: &ApiVersions, api: Api) -> Option<i16> {
    let (first, last) = offered(answer, api)?;
    let (our_first, our_last) = api.supported();
    let newest = last.min(our_last);
    (newest >= first.max(our_first)).then_some(newest)
}

fn needed(answer: &ApiVersions, api: Api) -> Result<i16, String> {
    common(answer, api).ok_or_else(|| {
        let (our_first, our_last) = api.supported();
        let name = api.name();
        match offered(answer, api) {
            Some((_, last)) if last < our_first => format!(
                "it speaks {name} only up to version {last}, and {our_first} is needed: Kafka 0.11 or newer"
            ),
            Some((first, last)) => {
                format!("it speaks {name} {first} to {last}, and this client {our_first} to {our_last}")
            }
            None => format!("it does not take {name} requests: is this a broker's port (or a controller's)?"),
        }
    })
}
