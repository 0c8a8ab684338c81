//! Metadata 4 to 13: brokers, topics, partitions and who leads them.

use super::error_code::ErrorCode;
use super::frame::Frame;
use super::header::{request, Api};
use super::wire::{put_bool, put_count, put_no_tags, put_string, Malformed, Reader, Uuid};

/// The cluster as one broker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Of the answer as a whole (version 13 and later).
    pub error: ErrorCode,
    pub throttle_ms: i32,
    pub brokers: Vec<Broker>,
    pub cluster_id: Option<String>,
    /// -1: unknown.
    pub controller: i32,
    pub topics: Vec<Topic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    pub host: String,
    /// As it was sent: not every number is a port.
    pub port: i32,
    pub rack: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub error: ErrorCode,
    /// Empty where the broker gave only an id.
    pub name: String,
    /// All zero: none (before version 10).
    pub id: Uuid,
    pub partitions: Vec<Partition>,
}

/// A partition. Nothing is promised of `index` but that it is not negative: not that it is there once, nor that it is
/// below the number of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub error: ErrorCode,
    pub index: i32,
    /// -1: none.
    pub leader: i32,
    /// -1: unknown (before version 7).
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

/// Asks for `topics`; without any: for the brokers only.
pub fn encode(
    version: i16,
    correlation: i32,
    client_id: &str,
    topics: &[&str],
    allow_auto_create: bool,
) -> Frame {
    let names: usize = topics.iter().map(|name| name.len() + 20).sum();
    let mut frame = request(Api::Metadata, version, correlation, client_id, names + 16);
    let flexible = Api::Metadata.is_flexible(version);
    let out = frame.framing();
    put_count(out, topics.len(), flexible);
    for name in topics {
        if version >= 10 {
            out.extend([0; 16]); // by name, not by id
        }
        put_string(out, name, flexible);
        put_no_tags(out, flexible);
    }
    put_bool(out, allow_auto_create);
    if (8..=10).contains(&version) {
        put_bool(out, false); // the cluster's authorized operations
    }
    if version >= 8 {
        put_bool(out, false); // the topics' authorized operations
    }
    put_no_tags(out, flexible);
    frame.finish()
}

pub fn decode(body: &[u8], version: i16) -> Result<Metadata, Malformed> {
    let flexible = Api::Metadata.is_flexible(version);
    let mut reader = Reader::new(body, flexible);
    let throttle_ms = reader.i32("throttle time")?;
    let brokers = reader.items(if flexible { 11 } else { 12 }, "brokers", |reader| {
        let broker = Broker {
            id: reader.i32("broker id")?,
            host: reader.string("broker's host")?.to_owned(),
            port: reader.i32("broker's port")?,
            rack: reader.nullable_string("broker's rack")?.map(str::to_owned),
        };
        reader.skip_tags()?;
        Ok(broker)
    })?;
    let cluster_id = reader.nullable_string("cluster id")?.map(str::to_owned);
    let controller = reader.i32("controller id")?;
    let topics = reader.items(if flexible { 6 } else { 9 }, "topics", |reader| topic(reader, version))?;
    if (8..=10).contains(&version) {
        reader.i32("authorized operations")?;
    }
    let error = if version >= 13 { ErrorCode::from(reader.i16("error code")?) } else { ErrorCode::None };
    reader.skip_tags()?;
    reader.end("Metadata response")?;
    Ok(Metadata { error, throttle_ms, brokers, cluster_id, controller, topics })
}

fn topic(reader: &mut Reader<'_>, version: i16) -> Result<Topic, Malformed> {
    let error = ErrorCode::from(reader.i16("topic's error code")?);
    // Null only for a topic that was asked for by its id, which we never do.
    let name = if version >= 12 {
        reader.nullable_string("topic's name")?.unwrap_or_default().to_owned()
    } else {
        reader.string("topic's name")?.to_owned()
    };
    let id = if version >= 10 { reader.uuid("topic's id")? } else { [0; 16] };
    reader.bool("internal")?;
    let partitions = reader.items(14, "partitions", |reader| partition(reader, version))?;
    if version >= 8 {
        reader.i32("authorized operations")?;
    }
    reader.skip_tags()?;
    Ok(Topic { error, name, id, partitions })
}

fn partition(reader: &mut Reader<'_>, version: i16) -> Result<Partition, Malformed> {
    let error = ErrorCode::from(reader.i16("partition's error code")?);
    let index = reader.i32("partition's index")?;
    if index < 0 {
        return Err(Malformed(format!("partition {index}")));
    }
    let leader = reader.i32("leader")?;
    let leader_epoch = if version >= 7 { reader.i32("leader epoch")? } else { -1 };
    let replicas = reader.i32s("replicas")?;
    let isr = reader.i32s("in-sync replicas")?;
    if version >= 5 {
        for _ in 0..reader.count(4, "offline replicas")? {
            reader.i32("offline replica")?;
        }
    }
    reader.skip_tags()?;
    Ok(Partition { error, index, leader, leader_epoch, replicas, isr })
}
