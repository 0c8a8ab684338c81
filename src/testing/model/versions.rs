//! Which versions of which calls a broker offers.
#![warn(missing_docs)]

use super::code;
use super::request::Api;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::protocol::Encodable;
use std::collections::BTreeMap;

/// The version ranges that a broker offers, to play an older or a stranger one.
///
/// Only what a producer needs is served: Produce from v3, Metadata, `ApiVersions` and `InitProducerId`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    ranges: BTreeMap<i16, (i16, i16)>,
    pub(crate) api_versions: Willingness,
    pub(crate) refuse_unknown_producers: bool,
}

/// What a broker makes of an `ApiVersions` request that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Willingness {
    /// Error 35 with the ranges, in the oldest format.
    Tells,
    /// Error 35 and nothing else.
    TellsNothing,
    /// It closes the connection.
    Closes,
}

impl Versions {
    /// Kafka 4.4, and what a broker of the cluster is unless told otherwise. (It lists Produce from v0, and refuses what
    /// is below v3: as the real one.)
    pub fn kafka_4_4() -> Versions {
        // Fetch and ListOffsets are listed and not served: librdkafka takes the absence of Fetch v4 for a sign of age.
        Versions::of(&[(0, 0, 13), (1, 4, 17), (2, 1, 10), (3, 0, 13), (18, 0, 4), (22, 0, 5)])
    }

    /// Kafka 3.9.
    pub fn kafka_3_9() -> Versions {
        Versions::of(&[(0, 0, 11), (1, 0, 17), (2, 0, 9), (3, 0, 12), (18, 0, 4), (22, 0, 5)])
    }

    /// Kafka 2.8.
    pub fn kafka_2_8() -> Versions {
        Versions::of(&[(0, 0, 9), (1, 0, 12), (2, 0, 6), (3, 0, 11), (18, 0, 3), (22, 0, 4)])
    }

    /// Kafka 1.1: no compression by zstd, a sequence error of its own for forgotten producers, and no list of versions
    /// for who asks in a newer way.
    pub fn kafka_1_1() -> Versions {
        let ranges = [(0, 0, 5), (1, 0, 7), (2, 0, 2), (3, 0, 5), (18, 0, 1), (22, 0, 0)];
        Versions::of(&ranges).old(Willingness::TellsNothing)
    }

    /// Kafka 0.11, the first with this record format and with idempotence: one request in flight is all it can order.
    pub fn kafka_0_11() -> Versions {
        let ranges = [(0, 0, 3), (1, 0, 5), (2, 0, 2), (3, 0, 4), (18, 0, 1), (22, 0, 0)];
        Versions::of(&ranges).old(Willingness::TellsNothing)
    }

    fn of(ranges: &[(i16, i16, i16)]) -> Versions {
        let ranges = ranges.iter().map(|&(key, min, max)| (key, (min, max))).collect();
        Versions { ranges, api_versions: Willingness::Tells, refuse_unknown_producers: false }
    }

    fn old(mut self, willingness: Willingness) -> Versions {
        self.api_versions = willingness;
        self.refuse_unknown_producers = true;
        self
    }

    /// Another range for this call.
    #[must_use]
    pub fn with(mut self, api: Api, min: i16, max: i16) -> Versions {
        self.ranges.insert(api.key(), (min, max));
        self
    }

    /// Without this call.
    #[must_use]
    pub fn without(mut self, api: Api) -> Versions {
        self.ranges.remove(&api.key());
        self
    }

    /// An `ApiVersions` request in a version that it does not know makes it close the connection, as some brokers do
    /// that only resemble Kafka.
    #[must_use]
    pub fn closing_on_unknown(mut self) -> Versions {
        self.api_versions = Willingness::Closes;
        self
    }

    /// Whether it offers this call in this version, and can serve it.
    pub(crate) fn serves(&self, api: Api, version: i16) -> bool {
        let least = if api == Api::Produce { 3 } else { 0 };
        let range = self.ranges.get(&api.key());
        range.is_some_and(|&(min, max)| (min.max(least)..=max).contains(&version))
    }

    /// The answer to `ApiVersions`. None: the connection is closed.
    pub(crate) fn answer(&self, version: i16) -> Option<(i16, ApiVersionsResponse)> {
        if self.serves(Api::ApiVersions, version) {
            return Some((version, self.response(code::NONE, true)));
        }
        match self.api_versions {
            Willingness::Closes => None,
            Willingness::Tells => Some((0, self.response(code::UNSUPPORTED_VERSION, true))),
            Willingness::TellsNothing => Some((0, self.response(code::UNSUPPORTED_VERSION, false))),
        }
    }

    fn response(&self, code: i16, with_ranges: bool) -> ApiVersionsResponse {
        let ranges = self.ranges.iter().filter(|_| with_ranges).map(|(&key, &(min, max))| {
            ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max)
        });
        ApiVersionsResponse::default().with_error_code(code).with_api_keys(ranges.collect())
    }
}

/// Encodes a response behind its header; the length in front is filled in.
pub(crate) fn frame<T: Encodable>(correlation: i32, header_tags: bool, body: &T, version: i16) -> Vec<u8> {
    let mut bytes = bytes::BytesMut::with_capacity(256);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&correlation.to_be_bytes());
    if header_tags {
        bytes.extend_from_slice(&[0]);
    }
    body.encode(&mut bytes, version).expect("the model fills in only what the version has");
    let length = bytes.len() as i32 - 4;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes.into()
}
