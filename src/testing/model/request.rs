//! Requests, taken apart before the model is asked: the costly part (checksums) needs no lock.

use super::batch::{Batch, Defect};
use bytes::Bytes;
use kafka_protocol::messages::{
    ApiVersionsRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, HeaderVersion};

/// Which of Kafka's calls a request is; others are closed on, as a broker closes on what it does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Api {
    /// Messages.
    Produce,
    /// Where topics and leaders are.
    Metadata,
    /// What versions the broker speaks.
    ApiVersions,
    /// A producer id for idempotence.
    InitProducerId,
}

impl Api {
    /// Its number in the protocol.
    pub fn key(self) -> i16 {
        match self {
            Api::Produce => 0,
            Api::Metadata => 3,
            Api::ApiVersions => 18,
            Api::InitProducerId => 22,
        }
    }

    fn of(key: i16) -> Option<Api> {
        [Api::Produce, Api::Metadata, Api::ApiVersions, Api::InitProducerId]
            .into_iter()
            .find(|api| api.key() == key)
    }
}

/// A request that could be read.
#[derive(Clone, Debug)]
pub struct Request {
    pub api: Api,
    pub version: i16,
    pub correlation: i32,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Produce(Produce),
    Metadata(MetadataRequest),
    ApiVersions,
    InitProducerId(InitProducerIdRequest),
    /// A version that nobody here can read; what the broker makes of it is up to its ranges.
    Unreadable,
}

#[derive(Clone, Debug)]
pub struct Produce {
    pub acks: i16,
    pub timeout_ms: i32,
    pub topics: Vec<ProduceTopic>,
}

#[derive(Clone, Debug)]
pub struct ProduceTopic {
    pub name: String,
    pub id: [u8; 16],
    pub partitions: Vec<(i32, Result<Batch, Defect>)>,
}

impl Request {
    /// `frame`: without its length. Err: what is wrong, in words; a broker closes the connection.
    pub fn decode(mut frame: Bytes) -> Result<Request, String> {
        let Some(head) = frame.first_chunk::<8>() else {
            return Err(format!("a request of {} bytes", frame.len()));
        };
        let key = i16::from_be_bytes([head[0], head[1]]);
        let version = i16::from_be_bytes([head[2], head[3]]);
        let correlation = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let Some(api) = Api::of(key) else {
            return Err(format!("a request with api key {key}"));
        };
        let readable = match api {
            Api::Produce => 3..=13,
            Api::Metadata => 0..=13,
            Api::ApiVersions => 0..=4,
            Api::InitProducerId => 0..=5,
        };
        if !readable.contains(&version) {
            return Ok(Request { api, version, correlation, body: Body::Unreadable });
        }
        let body = body(api, version, &mut frame).map_err(|e| format!("{api:?} v{version}: {e}"))?;
        if !frame.is_empty() {
            return Err(format!("{api:?} v{version}: {} bytes behind its end", frame.len()));
        }
        Ok(Request { api, version, correlation, body })
    }
}

fn body(api: Api, version: i16, frame: &mut Bytes) -> Result<Body, String> {
    fn read<T: Decodable + HeaderVersion>(frame: &mut Bytes, version: i16) -> Result<T, String> {
        RequestHeader::decode(frame, T::header_version(version)).map_err(|e| format!("header: {e}"))?;
        T::decode(frame, version).map_err(|e| e.to_string())
    }
    Ok(match api {
        Api::Produce => Body::Produce(produce(read(frame, version)?)),
        Api::Metadata => Body::Metadata(read(frame, version)?),
        Api::ApiVersions => {
            read::<ApiVersionsRequest>(frame, version)?;
            Body::ApiVersions
        }
        Api::InitProducerId => Body::InitProducerId(read(frame, version)?),
    })
}

fn produce(request: ProduceRequest) -> Produce {
    let topics = request.topic_data.into_iter().map(|topic| ProduceTopic {
        name: topic.name.to_string(),
        id: topic.topic_id.into_bytes(),
        partitions: topic
            .partition_data
            .into_iter()
            .map(|partition| (partition.index, Batch::parse(partition.records.unwrap_or_default())))
            .collect(),
    });
    Produce { acks: request.acks, timeout_ms: request.timeout_ms, topics: topics.collect() }
}
